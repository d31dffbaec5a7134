//! A scene as PNG, one pixel of the scene a pixel of the picture.

use super::font::{Font, Pen};
use super::scene::{Anchor, Color, Point, Scene, Shape, Text};
use tiny_skia::{FillRule, LineJoin, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

/// The bytes of the file. Errors: no memory for it.
pub fn bytes(scene: &Scene) -> Result<Vec<u8>, String> {
    let (width, height) = (u32::from(scene.width), u32::from(scene.height));
    let map = Pixmap::new(width, height);
    let mut map = map.ok_or_else(|| format!("no memory for {width} x {height} pixels"))?;
    let [red, green, blue] = scene.background.rgb;
    map.fill(tiny_skia::Color::from_rgba8(red, green, blue, 255));
    let mut canvas = Canvas {
        map,
        fonts: [Font::new(false), Font::new(true)],
    };
    scene.shapes.iter().for_each(|shape| canvas.draw(shape));
    canvas.map.encode_png().map_err(|error| error.to_string())
}

struct Canvas {
    map: Pixmap,
    fonts: [Font; 2],
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect((x, y), (width, height), fill) => {
                // As a path: the library's own rectangles fail on some that are thinner than a
                // pixel.
                let (right, bottom) = (x + width, y + height);
                let corners = [(*x, *y), (right, *y), (right, bottom), (*x, bottom)];
                self.fill(polygon(&corners, true), *fill);
            }
            Shape::Area(points, fill) => self.fill(polygon(points, true), *fill),
            Shape::Line {
                points,
                color,
                width,
                is_dashed,
            } => {
                let stroke = Stroke {
                    width: near(*width),
                    line_join: LineJoin::Round,
                    dash: is_dashed
                        .then(|| StrokeDash::new(vec![5.0, 4.0], 0.0))
                        .flatten(),
                    ..Stroke::default()
                };
                if let Some(path) = polygon(points, false).finish() {
                    let to = Transform::identity();
                    self.map
                        .stroke_path(&path, &paint(*color), &stroke, to, None);
                }
            }
            Shape::Dots(centers, radius, fill) => {
                for (x, y) in centers {
                    let mut path = PathBuilder::new();
                    path.push_circle(near(*x), near(*y), near(*radius));
                    self.fill(path, *fill);
                }
            }
            Shape::Text(text) => self.text(text),
        }
    }

    fn fill(&mut self, path: PathBuilder, fill: Color) {
        if let Some(path) = path.finish() {
            let to = Transform::identity();
            self.map
                .fill_path(&path, &paint(fill), FillRule::Winding, to, None);
        }
    }

    fn text(&mut self, text: &Text) {
        let font = &self.fonts[usize::from(text.is_bold)];
        let width = font.width(&text.text, text.size);
        let before = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let mut outline = Outline {
            path: PathBuilder::new(),
            text,
            before,
        };
        font.outline(&text.text, text.size, &mut outline);
        self.fill(outline.path, text.color);
    }
}

/// Letters where they belong.
struct Outline<'a> {
    path: PathBuilder,
    text: &'a Text,
    before: f64,
}

impl Outline<'_> {
    fn place(&self, (x, y): Point) -> (f32, f32) {
        let (left, top) = self.text.at;
        let x = x - self.before;
        match self.text.is_upright {
            true => (near(left + y), near(top - x)),
            false => (near(left + x), near(top + y)),
        }
    }
}

impl Pen for Outline<'_> {
    fn start(&mut self, at: Point) {
        let (x, y) = self.place(at);
        self.path.move_to(x, y);
    }

    fn line(&mut self, to: Point) {
        let (x, y) = self.place(to);
        self.path.line_to(x, y);
    }

    fn curve(&mut self, by: Point, to: Point) {
        let ((x1, y1), (x, y)) = (self.place(by), self.place(to));
        self.path.quad_to(x1, y1, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

fn polygon(points: &[Point], is_closed: bool) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in points.iter().enumerate() {
        match at {
            0 => path.move_to(near(*x), near(*y)),
            _ => path.line_to(near(*x), near(*y)),
        }
    }
    if is_closed {
        path.close();
    }
    path
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    let [red, green, blue] = color.rgb;
    paint.set_color_rgba8(red, green, blue, color.alpha);
    paint
}

/// Pixels need no more digits.
fn near(value: f64) -> f32 {
    value as f32
}
