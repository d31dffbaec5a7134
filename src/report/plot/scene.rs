//! A picture as a list of shapes, in pixels from the top left; SVG and PNG draw the same list.

/// A place: x to the right, y down.
pub type Point = (f64, f64);

/// A colour with its opacity, 255 opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color {
    /// Red, green, blue.
    pub rgb: [u8; 3],
    /// 0 is not to be seen.
    pub alpha: u8,
}

impl Color {
    /// Opaque, of `0xrrggbb`.
    pub const fn hex(rgb: u32) -> Color {
        let [_, red, green, blue] = rgb.to_be_bytes();
        Color {
            rgb: [red, green, blue],
            alpha: 255,
        }
    }

    /// The same with an opacity.
    #[must_use]
    pub const fn with_alpha(self, alpha: u8) -> Color {
        Color { alpha, ..self }
    }

    /// Between this and another, which `share` of 1 gives.
    #[must_use]
    pub fn towards(self, other: Color, share: f64) -> Color {
        let share = share.clamp(0.0, 1.0);
        // Between two bytes there are only bytes.
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share) as u8;
        let [a, b] = [self.rgb, other.rgb];
        Color {
            rgb: [mix(a[0], b[0]), mix(a[1], b[1]), mix(a[2], b[2])],
            alpha: mix(self.alpha, other.alpha),
        }
    }
}

/// Which end of a text its place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The first letter.
    Start,
    /// The middle.
    Middle,
    /// The last letter.
    End,
}

/// A line of text on its base line.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Where its anchor is.
    pub at: Point,
    /// What it says.
    pub text: String,
    /// Height of the font in pixels.
    pub size: f64,
    /// Semi-bold.
    pub is_bold: bool,
    /// Which end is at `at`.
    pub anchor: Anchor,
    /// Turned by a quarter, to be read upwards.
    pub is_upright: bool,
    /// Colour.
    pub color: Color,
}

/// A shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle: place of its corner, width and height.
    Rect(Point, Point, Color),
    /// A filled polygon.
    Area(Vec<Point>, Color),
    /// A line through points.
    Line {
        /// Its points.
        points: Vec<Point>,
        /// Colour.
        color: Color,
        /// Width in pixels.
        width: f64,
        /// Broken into dashes.
        is_dashed: bool,
    },
    /// Filled circles of one radius.
    Dots(Vec<Point>, f64, Color),
    /// A text.
    Text(Text),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// Behind everything.
    pub background: Color,
    /// What it is, for readers who do not see it.
    pub title: String,
    /// From back to front.
    pub shapes: Vec<Shape>,
}
