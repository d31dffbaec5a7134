//! What all plots have around their data: title, sub-title, legend, axes with ticks, a foot line.

use super::font::Font;
use super::scale::Scale;
use super::scene::{Anchor, Color, Point, Scene, Shape, Text};

/// Size of a plot in pixels.
pub const WIDTH: u16 = 700;
/// Its height.
pub const HEIGHT: u16 = 450;

/// Light for paper, dark for slides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Theme {
    /// Dark on white.
    #[default]
    Light,
    /// Light on black.
    Dark,
}

/// Okabe and Ito's colours, which colour-blind readers tell apart, in an order of contrast.
const SERIES: [u32; 6] = [0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9];
/// The same, brighter where the ground is dark.
const SERIES_DARK: [u32; 6] = [0x4aa8e0, 0xf08a45, 0x2fc79c, 0xe2a3c6, 0xf2bd4a, 0x8fd0f5];
/// Runs that have colours of their own.
pub const SERIES_MAX: usize = SERIES.len();

impl Theme {
    fn pick(self, light: u32, dark: u32) -> Color {
        Color::hex(if self == Theme::Dark { dark } else { light })
    }

    /// Behind everything.
    pub fn background(self) -> Color {
        self.pick(0xffffff, 0x15191e)
    }

    /// Title and marks.
    pub fn ink(self) -> Color {
        self.pick(0x1d2630, 0xe8ebee)
    }

    /// Labels.
    pub fn soft(self) -> Color {
        self.pick(0x55616d, 0xa3aeb8)
    }

    /// Lines behind the data.
    pub fn grid(self) -> Color {
        self.pick(0xe3e7eb, 0x2c343c)
    }

    /// Of the run with this place, from 0.
    pub fn series(self, at: usize) -> Color {
        self.pick(SERIES[at % SERIES_MAX], SERIES_DARK[at % SERIES_MAX])
    }

    /// Of a share of the largest count, above 0 to 1: one hue, from near the ground to far from it.
    pub fn heat(self, share: f64) -> Color {
        let stops = match self {
            Theme::Light => [0xd6e6f4, 0x6aaed6, 0x2171b5, 0x08306b],
            Theme::Dark => [0x1d3a55, 0x2171b5, 0x6aaed6, 0xe3f0fb],
        };
        let along = share.clamp(0.0, 1.0) * 3.0;
        let at = (along as usize).min(2);
        let [from, to] = [stops[at], stops[at + 1]].map(Color::hex);
        from.towards(to, along - super::float_len(at))
    }
}

/// What a mark looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A filled field.
    Field,
    /// A line.
    Line,
    /// A broken line.
    Dashed,
    /// A circle.
    Dot,
    /// A triangle.
    Triangle,
    /// A square.
    Square,
    /// A square on its corner.
    Diamond,
}

/// A line of the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its mark.
    pub mark: Mark,
    /// Its colour.
    pub color: Color,
    /// What it means.
    pub text: String,
}

/// The texts around a plot.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// What it shows.
    pub title: String,
    /// Of what: run, number of requests.
    pub subtitle: String,
    /// Under the horizontal axis, with its unit.
    pub x: String,
    /// Beside the vertical axis, with its unit; empty without one.
    pub y: String,
    /// How to read it, and what is left out.
    pub foot: String,
    /// Marks and their meanings.
    pub legend: Vec<Key>,
}

/// A plot in the making: data are added in their own units.
pub struct Frame {
    scene: Scene,
    theme: Theme,
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    is_downward: bool,
}

const EDGE: f64 = 20.0;
const TICK_SIZE: f64 = 12.0;
const TEXT_SIZE: f64 = 13.0;

/// Names at the left in place of a vertical axis, from top to bottom.
pub struct Rows(pub Vec<String>);

impl Frame {
    /// Two axes. `right` is room at the right, in pixels.
    pub fn new(labels: &Labels, (x, y): (Scale, Scale), theme: Theme, right: f64) -> Frame {
        let font = Font::new(false);
        let widths = y
            .ticks()
            .iter()
            .map(|(_, text)| font.width(text, TICK_SIZE));
        let left = 44.0 + widths.fold(0.0, f64::max);
        let mut frame = Frame::bare(labels, (x, y), theme, (left, right));
        frame.grid_y();
        frame.grid_x(labels);
        let middle = (frame.top + frame.bottom) / 2.0;
        let y = frame.fit(&labels.y, TEXT_SIZE, frame.bottom - frame.top);
        frame.text((EDGE + 6.0, middle), &y, TEXT_SIZE, Anchor::Middle);
        if let Some(Shape::Text(text)) = frame.scene.shapes.last_mut() {
            text.is_upright = true;
        }
        frame
    }

    /// One axis and rows: 0 is the upper edge of the first row, 1 that of the second.
    pub fn with_rows(labels: &Labels, x: Scale, rows: &Rows, theme: Theme, right: f64) -> Frame {
        let font = Font::new(false);
        let room = 150.0;
        let fitted = rows.0.iter().map(|name| font.fitted(name, TICK_SIZE, room));
        let names: Vec<String> = fitted.collect();
        let widths = names.iter().map(|name| font.width(name, TICK_SIZE));
        let left = EDGE + 10.0 + widths.fold(0.0, f64::max);
        let count = super::float_len(rows.0.len().max(1));
        let y = Scale::exactly(0.0, count);
        let mut frame = Frame::bare(labels, (x, y), theme, (left, right));
        frame.is_downward = true;
        frame.grid_x(labels);
        for (at, name) in names.iter().enumerate() {
            let y = frame.row(super::float_len(at) + 0.5);
            frame.text((frame.left - 8.0, y + 4.0), name, TICK_SIZE, Anchor::End);
        }
        frame
    }

    fn bare(labels: &Labels, axes: (Scale, Scale), theme: Theme, sides: (f64, f64)) -> Frame {
        let mut frame = Frame {
            scene: Scene {
                width: WIDTH,
                height: HEIGHT,
                background: theme.background(),
                title: labels.title.clone(),
                shapes: Vec::new(),
            },
            theme,
            x: axes.0,
            y: axes.1,
            left: sides.0,
            // Half of a tick's label stands out.
            right: f64::from(WIDTH) - sides.1.max(8.0) - EDGE,
            top: 72.0,
            bottom: f64::from(HEIGHT) - if labels.foot.is_empty() { 54.0 } else { 74.0 },
            is_downward: false,
        };
        let room = f64::from(WIDTH) - 2.0 * EDGE;
        let title = Font::new(true).fitted(&labels.title, 17.0, room);
        frame.text((EDGE, 32.0), &title, 17.0, Anchor::Start);
        if let Some(Shape::Text(text)) = frame.scene.shapes.last_mut() {
            text.is_bold = true;
            text.color = theme.ink();
        }
        let subtitle = frame.fit(&labels.subtitle, TICK_SIZE, room);
        frame.text((EDGE, 52.0), &subtitle, TICK_SIZE, Anchor::Start);
        let foot = frame.fit(&labels.foot, 11.0, room);
        let low = f64::from(HEIGHT) - 14.0;
        frame.text((EDGE, low), &foot, 11.0, Anchor::Start);
        frame.legend(&labels.legend);
        frame
    }

    fn fit(&self, text: &str, size: f64, room: f64) -> String {
        Font::new(false).fitted(text, size, room)
    }

    /// In one row, or in as many as the names need, and the data below it.
    fn legend(&mut self, keys: &[Key]) {
        let font = Font::new(false);
        let room = f64::from(WIDTH) - 2.0 * EDGE;
        let width = |text: &str| 42.0 + font.width(text, TICK_SIZE);
        let each_max = (room / 3.0 - 1.0).max(room / super::float_len(keys.len().max(1)));
        let (mut x, mut y) = (EDGE, 76.0);
        for key in keys {
            let text = font.fitted(&key.text, TICK_SIZE, each_max - 42.0);
            if x + width(&text) > EDGE + room + 20.0 && x > EDGE {
                (x, y) = (EDGE, y + 18.0);
            }
            let middle = (x + 8.0, y - 4.0);
            match key.mark {
                Mark::Field => self.push(Shape::Rect((x, y - 10.0), (16.0, 11.0), key.color)),
                Mark::Line | Mark::Dashed => self.push(Shape::Line {
                    points: vec![(x - 1.0, middle.1), (x + 17.0, middle.1)],
                    color: key.color,
                    width: 2.0,
                    is_dashed: key.mark == Mark::Dashed,
                }),
                mark => self.mark(middle, mark, key.color),
            }
            self.text((x + 22.0, y), &text, TICK_SIZE, Anchor::Start);
            x += width(&text);
        }
        if !keys.is_empty() {
            self.top = y + 18.0;
        }
    }

    fn grid_x(&mut self, labels: &Labels) {
        let (theme, font) = (self.theme, Font::new(false));
        let mut free_from = f64::MIN;
        for (value, text) in self.x.ticks().to_vec() {
            let x = self.column(value);
            self.rule((x, self.top), (x, self.bottom), theme.grid());
            // Decades may stand close: a label that would touch the last is left out.
            let half = font.width(&text, TICK_SIZE) / 2.0;
            if x - half >= free_from {
                self.text((x, self.bottom + 18.0), &text, TICK_SIZE, Anchor::Middle);
                free_from = x + half + 6.0;
            }
        }
        let ends = ((self.left, self.bottom), (self.right, self.bottom));
        self.rule(ends.0, ends.1, theme.soft());
        let middle = (self.left + self.right) / 2.0;
        let x = self.fit(&labels.x, TEXT_SIZE, self.right - self.left);
        self.text((middle, self.bottom + 38.0), &x, TEXT_SIZE, Anchor::Middle);
    }

    fn grid_y(&mut self) {
        let theme = self.theme;
        let mut free_below = f64::MAX;
        for (value, text) in self.y.ticks().to_vec() {
            let y = self.row(value);
            self.rule((self.left, y), (self.right, y), theme.grid());
            if y + TICK_SIZE <= free_below {
                self.text((self.left - 8.0, y + 4.0), &text, TICK_SIZE, Anchor::End);
                free_below = y;
            }
        }
    }

    fn rule(&mut self, from: Point, to: Point, color: Color) {
        // On the middle of a pixel a line of one pixel is sharp.
        let sharp = |(x, y): Point| (x.floor() + 0.5, y.floor() + 0.5);
        self.push(Shape::Line {
            points: vec![sharp(from), sharp(to)],
            color,
            width: 1.0,
            is_dashed: false,
        });
    }

    /// Adds a shape in pixels.
    pub fn push(&mut self, shape: Shape) {
        self.scene.shapes.push(shape);
    }

    /// The colours.
    pub fn theme(&self) -> Theme {
        self.theme
    }

    /// The horizontal axis.
    pub fn x(&self) -> &Scale {
        &self.x
    }

    /// Left, right, top and bottom of the data, in pixels.
    pub fn sides(&self) -> [f64; 4] {
        [self.left, self.right, self.top, self.bottom]
    }

    /// Pixels from the left, of a value.
    pub fn column(&self, x: f64) -> f64 {
        self.left + self.x.at(x) * (self.right - self.left)
    }

    /// Pixels from the top, of a value.
    pub fn row(&self, y: f64) -> f64 {
        match self.is_downward {
            true => self.top + self.y.at(y) * (self.bottom - self.top),
            false => self.bottom - self.y.at(y) * (self.bottom - self.top),
        }
    }

    /// The place of a pair of values.
    pub fn place(&self, (x, y): Point) -> Point {
        (self.column(x), self.row(y))
    }

    /// A text in pixels, in the colour of labels.
    pub fn text(&mut self, at: Point, text: &str, size: f64, anchor: Anchor) {
        if text.is_empty() {
            return;
        }
        let text = Text {
            at,
            text: text.to_string(),
            size,
            is_bold: false,
            anchor,
            is_upright: false,
            color: self.theme.soft(),
        };
        self.push(Shape::Text(text));
    }

    /// A line through pairs of values.
    pub fn line(&mut self, values: &[Point], color: Color, width: f64, is_dashed: bool) {
        let points = values.iter().map(|pair| self.place(*pair)).collect();
        self.push(Shape::Line {
            points,
            color,
            width,
            is_dashed,
        });
    }

    /// A field within a line through pairs of values.
    pub fn area(&mut self, values: &[Point], fill: Color) {
        let points = values.iter().map(|pair| self.place(*pair)).collect();
        self.push(Shape::Area(points, fill));
    }

    /// Circles at pairs of values.
    pub fn dots(&mut self, values: &[Point], radius: f64, fill: Color) {
        let centers = values.iter().map(|pair| self.place(*pair)).collect();
        self.push(Shape::Dots(centers, radius, fill));
    }

    /// A mark in pixels, with a rim in the colour of the ground.
    pub fn mark(&mut self, (x, y): Point, mark: Mark, color: Color) {
        let corners = |size: f64| -> Vec<Point> {
            match mark {
                Mark::Triangle => vec![
                    (x, y - 1.15 * size),
                    (x + 1.1 * size, y + 0.8 * size),
                    (x - 1.1 * size, y + 0.8 * size),
                ],
                Mark::Square => vec![
                    (x - 0.85 * size, y - 0.85 * size),
                    (x + 0.85 * size, y - 0.85 * size),
                    (x + 0.85 * size, y + 0.85 * size),
                    (x - 0.85 * size, y + 0.85 * size),
                ],
                _ => vec![
                    (x, y - 1.2 * size),
                    (x + 1.2 * size, y),
                    (x, y + 1.2 * size),
                    (x - 1.2 * size, y),
                ],
            }
        };
        let ground = self.theme.background();
        for (size, fill) in [(7.0, ground), (5.5, color)] {
            self.push(match mark {
                Mark::Dot => Shape::Dots(vec![(x, y)], size - 1.0, fill),
                _ => Shape::Area(corners(size), fill),
            });
        }
    }

    /// The picture.
    pub fn finish(self) -> Scene {
        self.scene
    }
}
