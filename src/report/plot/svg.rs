//! A scene as SVG: text stays text, so that it can be found and copied.

use super::scene::{Anchor, Color, Point, Scene, Shape, Text};
use std::fmt::Write;

/// The bundled font first, then what stands in for it.
const FAMILY: &str = "Inter, Helvetica, Arial, sans-serif";

/// The document.
pub fn text(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FAMILY}\">\n\
         <title>{}</title>\n<rect width=\"{width}\" height=\"{height}\"{}/>\n",
        escape(&scene.title),
        paint("fill", scene.background),
    );
    for shape in &scene.shapes {
        push(&mut out, shape);
    }
    out.push_str("</svg>\n");
    out
}

fn push(out: &mut String, shape: &Shape) {
    // Writing to a string does not fail.
    let _ = match shape {
        Shape::Rect((x, y), (width, height), fill) => writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
            short(*x),
            short(*y),
            short(*width),
            short(*height),
            paint("fill", *fill)
        ),
        Shape::Area(points, fill) => {
            let fill = paint("fill", *fill);
            writeln!(out, "<polygon points=\"{}\"{fill}/>", list(points))
        }
        Shape::Line {
            points,
            color,
            width,
            is_dashed,
        } => writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\"{} stroke-width=\"{}\"{}/>",
            list(points),
            paint("stroke", *color),
            short(*width),
            if *is_dashed {
                " stroke-dasharray=\"5 4\""
            } else {
                ""
            },
        ),
        Shape::Dots(centers, radius, fill) => {
            let _ = writeln!(out, "<g{}>", paint("fill", *fill));
            for (x, y) in centers {
                let (x, y, radius) = (short(*x), short(*y), short(*radius));
                let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
            }
            writeln!(out, "</g>")
        }
        Shape::Text(text) => line(out, text),
    };
}

fn line(out: &mut String, text: &Text) -> std::fmt::Result {
    let (x, y) = (short(text.at.0), short(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let turned = match text.is_upright {
        true => format!(" transform=\"rotate(-90 {x} {y})\""),
        false => String::new(),
    };
    writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{}{anchor}{turned}{}>{}</text>",
        short(text.size),
        if text.is_bold {
            " font-weight=\"600\""
        } else {
            ""
        },
        paint("fill", text.color),
        escape(&text.text),
    )
}

fn list(points: &[Point]) -> String {
    let point = |(x, y): &Point| format!("{},{}", short(*x), short(*y));
    points.iter().map(point).collect::<Vec<_>>().join(" ")
}

/// A tenth of a pixel is as near as anybody sees.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0" } else { text }.to_string()
}

fn paint(name: &str, color: Color) -> String {
    let [red, green, blue] = color.rgb;
    let mut out = format!(" {name}=\"#{red:02x}{green:02x}{blue:02x}\"");
    if color.alpha < 255 {
        let _ = write!(out, " {name}-opacity=\"{:.2}\"", opacity(color));
    }
    out
}

fn opacity(color: Color) -> f64 {
    f64::from(color.alpha) / 255.0
}

/// Text as XML may hold it: what XML 1.0 has no way to say becomes a mark.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place() {
        let text = escape("a<b>&\"c\"\u{0}\n\u{ffff}é");
        assert_eq!(
            text,
            "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\u{fffd}\u{fffd}é"
        );
    }

    #[test]
    fn numbers_are_short() {
        let all = [1.0, -0.01, 12.34, 700.0, 0.05].map(short);
        assert_eq!(all, ["1", "0", "12.3", "700", "0.1"]);
    }
}
