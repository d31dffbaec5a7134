//! The bundled font: how wide a text is, and its outlines.

use ttf_parser::{Face, OutlineBuilder};

const REGULAR: &[u8] = include_bytes!("font/Inter-Regular.ttf");
const BOLD: &[u8] = include_bytes!("font/Inter-SemiBold.ttf");

/// One of the two faces.
pub struct Font(Option<Face<'static>>);

impl Font {
    /// Regular or semi-bold.
    pub fn new(is_bold: bool) -> Font {
        let bytes = if is_bold { BOLD } else { REGULAR };
        // A broken one would draw nothing; a test reads both.
        Font(Face::parse(bytes, 0).ok())
    }

    /// Pixels per unit of the font at a size.
    fn scale(&self, size: f64) -> f64 {
        let units = self.0.as_ref().map_or(1000, Face::units_per_em);
        size / f64::from(units)
    }

    /// Width of a text in pixels.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        let Some(face) = &self.0 else {
            return 0.0;
        };
        let units: u64 = text.chars().map(|c| u64::from(advance(face, c))).sum();
        super::float(units) * self.scale(size)
    }

    /// The text, cut with an ellipsis to be no wider than so many pixels.
    pub fn fitted(&self, text: &str, size: f64, room: f64) -> String {
        let Some(face) = &self.0 else {
            return String::new();
        };
        let scale = self.scale(size);
        let wide = |letter: char| f64::from(advance(face, letter)) * scale;
        let dots = wide('…');
        // Where the text would end with an ellipsis; a name of a million letters is not measured.
        let (mut width, mut cut) = (0.0, 0);
        for (at, letter) in text.char_indices() {
            if width + dots <= room {
                cut = at;
            }
            width += wide(letter);
            if width > room {
                return format!("{}…", &text[..cut]);
            }
        }
        text.to_string()
    }

    /// Gives the outlines of a text that begins at 0 on its base line, y down, in pixels.
    pub fn outline(&self, text: &str, size: f64, pen: &mut dyn Pen) {
        let Some(face) = &self.0 else {
            return;
        };
        let (scale, mut x) = (self.scale(size), 0.0);
        for letter in text.chars() {
            // What the font does not have is drawn as its empty box.
            let glyph = face.glyph_index(letter).unwrap_or_default();
            let mut placed = Placed { pen, scale, x };
            face.outline_glyph(glyph, &mut placed);
            x += f64::from(advance(face, letter)) * scale;
        }
    }
}

fn advance(face: &Face<'_>, letter: char) -> u16 {
    let glyph = face.glyph_index(letter).unwrap_or_default();
    face.glyph_hor_advance(glyph).unwrap_or(0)
}

/// What draws outlines.
pub trait Pen {
    /// Begins at a place.
    fn start(&mut self, at: (f64, f64));
    /// A line to a place.
    fn line(&mut self, to: (f64, f64));
    /// A quadratic curve by its control point to a place.
    fn curve(&mut self, by: (f64, f64), to: (f64, f64));
    /// Back to where it began.
    fn close(&mut self);
}

struct Placed<'a> {
    pen: &'a mut dyn Pen,
    scale: f64,
    x: f64,
}

impl Placed<'_> {
    fn at(&self, x: f32, y: f32) -> (f64, f64) {
        let (x, y) = (f64::from(x) * self.scale, f64::from(y) * self.scale);
        (self.x + x, -y)
    }
}

impl OutlineBuilder for Placed<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.pen.start(self.at(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.pen.line(self.at(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.pen.curve(self.at(x1, y1), self.at(x, y));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, _: f32, _: f32, x: f32, y: f32) {
        // TrueType outlines are quadratic: this one is never called by the bundled font.
        self.pen.curve(self.at(x1, y1), self.at(x, y));
    }

    fn close(&mut self) {
        self.pen.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_faces_are_there_and_have_the_signs_that_labels_use() {
        for is_bold in [false, true] {
            let font = Font::new(is_bold);
            let face = font.0.as_ref().unwrap();
            for sign in "AZaz09éäß.,:;()<>&%µ×–—…−·≥≤→".chars() {
                assert!(face.glyph_index(sign).is_some(), "{sign}");
            }
            assert!(font.width("1,000 ms", 12.0) > 40.0);
        }
    }

    #[test]
    fn a_long_name_is_cut_to_its_room() {
        let font = Font::new(false);
        assert_eq!(font.fitted("short", 12.0, 100.0), "short");
        let cut = font.fitted(&"x".repeat(100_000), 12.0, 100.0);
        assert!(cut.ends_with('…') && font.width(&cut, 12.0) <= 100.0);
        assert_eq!(font.fitted("abc", 12.0, 0.0), "…");
    }
}
