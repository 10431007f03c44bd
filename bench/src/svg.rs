//! A plot of all shapes, written by hand: bars of the CPU ratio, and marks of the latency's percentiles.

use crate::report::Summary;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const ROW_HEIGHT: f64 = 26.0;
const NAME_WIDTH: f64 = 150.0;
const PANEL_GAP: f64 = 64.0;
const TOP: f64 = 40.0;
/// Room for a figure behind the longest bar.
const FIGURE_WIDTH: f64 = 60.0;
/// Milliseconds at both ends of the latency's logarithmic axis.
const AXIS_MS: (f64, f64) = (0.1, 10_000.0);
const PERCENTILES: [(&str, &str); 3] = [("p50", "#1b6ca8"), ("p99", "#e08a1e"), ("p99.9", "#b3261e")];

pub fn plot(summaries: &[Summary]) -> String {
    let panel = summaries.len() as f64 * ROW_HEIGHT;
    let height = TOP + panel + PANEL_GAP + panel + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text(
        &mut svg,
        10.0,
        22.0,
        "CPU per delivery ÷ CPU per bare loopback request (less is better)",
        "font-weight=\"bold\"",
    );
    ratio_bars(&mut svg, summaries);
    let second = TOP + panel + PANEL_GAP;
    text(&mut svg, 10.0, second - 26.0, "Send to receive, milliseconds, logarithmic", "font-weight=\"bold\"");
    latency_marks(&mut svg, summaries, second, panel);
    svg.push_str("</svg>\n");
    svg
}

fn ratio_bars(svg: &mut String, summaries: &[Summary]) {
    let most = summaries.iter().filter_map(|summary| summary.cpu_ratio).fold(1.0, f64::max);
    for (row, summary) in summaries.iter().enumerate() {
        let y = TOP + row as f64 * ROW_HEIGHT;
        text(svg, 10.0, y + 16.0, &summary.shape, "");
        let Some(ratio) = summary.cpu_ratio else {
            text(svg, NAME_WIDTH, y + 16.0, "not measured", "fill=\"#777777\"");
            continue;
        };
        let width = ratio / most * (WIDTH - NAME_WIDTH - FIGURE_WIDTH);
        let height = ROW_HEIGHT - 8.0;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{NAME_WIDTH}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"#1b6ca8\"/>",
            y + 2.0
        );
        text(svg, NAME_WIDTH + width + 6.0, y + 16.0, &format!("{ratio:.2}"), "");
    }
}

fn latency_marks(svg: &mut String, summaries: &[Summary], top: f64, height: f64) {
    let mut tick = AXIS_MS.0;
    while tick <= AXIS_MS.1 * 1.001 {
        let x = on_axis(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#dddddd\"/>",
            top + height
        );
        text(svg, x, top + height + 16.0, &format!("{tick}"), "text-anchor=\"middle\" fill=\"#555555\"");
        tick = (tick * 100.0).round() / 10.0;
    }
    for (at, (name, colour)) in PERCENTILES.iter().enumerate() {
        text(
            svg,
            WIDTH - 200.0 + at as f64 * 60.0,
            top - 26.0,
            &format!("● {name}"),
            &format!("fill=\"{colour}\""),
        );
    }
    for (row, summary) in summaries.iter().enumerate() {
        let y = top + row as f64 * ROW_HEIGHT + ROW_HEIGHT / 2.0;
        text(svg, 10.0, y + 4.0, &summary.shape, "");
        for (ms, (name, colour)) in
            [summary.p50_ms, summary.p99_ms, summary.p999_ms].into_iter().zip(PERCENTILES)
        {
            let x = on_axis(ms);
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"><title>{name} {ms:.1} ms</title></circle>"
            );
        }
    }
}

fn on_axis(ms: f64) -> f64 {
    let (least, most) = AXIS_MS;
    let share = (ms.clamp(least, most) / least).log10() / (most / least).log10();
    NAME_WIDTH + share * (WIDTH - NAME_WIDTH - FIGURE_WIDTH)
}

fn text(svg: &mut String, x: f64, y: f64, content: &str, attributes: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{content}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tag that is opened is closed, in order, and no character stands where XML forbids it.
    fn is_well_formed(xml: &str) -> bool {
        let mut open = vec![];
        for piece in xml.split('<').skip(1) {
            let Some((tag, content)) = piece.split_once('>') else { return false };
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                if open.pop() != Some(name) {
                    return false;
                }
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            let is_plain = content.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
            if tag.matches('"').count() % 2 > 0 || is_plain.contains(['&', '>']) {
                return false;
            }
        }
        open.is_empty()
    }

    fn summary(shape: &str, cpu_ratio: Option<f64>) -> Summary {
        Summary {
            shape: shape.into(),
            cpu_ratio,
            p50_ms: 2.5,
            p99_ms: 13.0,
            p999_ms: 20_000.0,
            ..Summary::default()
        }
    }

    #[test]
    fn the_plot_is_well_formed_whatever_a_shape_is_called() {
        assert!(is_well_formed(&plot(&[summary("one-32", Some(3.5)), summary("a<b & \"c\">", None)])));
        assert!(is_well_formed(&plot(&[])));
        assert!(!is_well_formed("<svg><text>a</svg>") && !is_well_formed("<svg>a & b</svg>"));
    }

    #[test]
    fn the_plot_shows_each_shape_with_its_figures() {
        let svg = plot(&[summary("one-32", Some(3.5)), summary("fanout-5", Some(1.25))]);
        for expected in [">one-32<", ">3.50<", ">1.25<", "p99 13.0 ms", ">fanout-5<"] {
            assert!(svg.contains(expected), "{expected}");
        }
        assert_eq!((on_axis(0.0), on_axis(1e9)), (on_axis(AXIS_MS.0), on_axis(AXIS_MS.1)));
    }
}
