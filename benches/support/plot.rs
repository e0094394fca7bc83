//! Draws lines over two logarithmic axes into an SVG file.
//!
//! Plotters runs without its font features: the SVG names a font, and the viewer sets the text. Plotters then only
//! guesses the width of a label, so the axes have wide margins.

use std::path::Path;

use plotters::prelude::*;

use super::Result;
use super::quantity::short;

/// Colours that colour-blind people can tell apart, too (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
];

/// One engine's line.
pub struct Line {
    pub label: String,
    pub points: Vec<Point>,
}

/// A filled dot where measured, a ring where extrapolated.
#[derive(Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub measured: bool,
}

/// Writes the plot to `path`.
pub fn log_log(
    path: &Path,
    title: &str,
    x_label: &str,
    y_label: &str,
    lines: &[Line],
) -> Result<()> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (x_low, x_high) = span(points().map(|point| point.x));
    let (y_low, y_high) = span(points().map(|point| point.y));

    let root = SVGBackend::new(path, (860, 560)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(18)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d((x_low..x_high).log_scale(), (y_low..y_high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(x_label)
        .y_desc(y_label)
        .x_label_formatter(&|value: &f64| short(*value))
        .y_label_formatter(&|value: &f64| short(*value))
        .draw()?;

    for (line, colour) in lines.iter().zip(COLOURS.iter().copied().cycle()) {
        let course = line.points.iter().map(|point| (point.x, point.y));
        chart
            .draw_series(LineSeries::new(course, colour.stroke_width(2)))?
            .label(line.label.clone())
            .legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2))
            });
        chart.draw_series(line.points.iter().map(|point| {
            let style = if point.measured {
                colour.filled()
            } else {
                colour.stroke_width(1)
            };
            Circle::new((point.x, point.y), 4, style)
        }))?;
    }

    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// The least and the greatest value, each moved outwards, so that no dot is on the frame, and a single one has an axis.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low.max(1e-6) / 1.6, high.max(1e-6) * 1.6)
}
