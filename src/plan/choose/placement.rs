//! Which nodes of a plan a GPU takes: the cheapest placement of all of them, borders included.
//!
//! ```text
//! host(n)   = least of  DataFusion's own n above host(inputs)       device(n) + what brings its rows down
//! device(n) = least of  each way on the device, above               device(input), or host(input) + what brings its rows up
//! ```
//!
//! So a join whose input lies on the device pays no way up for it, and one whose output stays pays no way down.

use crate::error::Decline;

/// DataFusion's time counts for so much: what is estimated to gain less than a fifth stays where it is.
const MARGIN: f64 = 0.8;

/// A border: what crosses it, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Border {
    pub seconds: f64,
    pub bytes: f64,
}

/// One node of the plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    /// Its inputs in DataFusion's plan: earlier steps.
    pub inputs: Vec<usize>,
    /// Seconds of DataFusion's node; `None` where there is no question of leaving it to DataFusion.
    pub host: Option<f64>,
    /// How a device can do it.
    pub ways: Vec<Way>,
    /// To bring its rows to the host.
    pub down: Border,
    /// Seconds that its rows cost which stay on the device.
    pub stay: f64,
    /// Rows that come out.
    pub rows: Option<f64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    pub seconds: f64,
    /// A step that it does too.
    pub along: Option<usize>,
    /// Steps whose rows it reads, and what brings them up; `None` where only rows will do that a device node left there.
    pub inputs: Vec<(usize, Option<Border>)>,
}

/// What is to become of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    pub on_device: bool,
    pub estimate: Estimate,
}

/// What a node costs: on the device with the borders that it has there, and in DataFusion.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Estimate {
    pub rows: Option<u64>,
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub device_ms: f64,
    pub host_ms: f64,
}

impl Estimate {
    /// Why it does not pay.
    pub(crate) fn decline(&self) -> Decline {
        Decline(format!(
            "estimated at {:.1} ms on the device with its transfers, at {:.1} ms in DataFusion",
            self.device_ms, self.host_ms
        ))
    }
}

/// The cheapest way to have a step's rows on the host and on the device.
#[derive(Debug, Clone, Copy)]
struct Cost {
    host: f64,
    /// With the way; infinite where there is none.
    device: f64,
    way: Option<usize>,
    /// Whether the host's rows come from the device. Computed once: what is added and taken off again is rounded.
    brought_down: bool,
}

/// Places each step; the last one's rows are wanted on the host.
pub(crate) fn place(steps: &[Step]) -> Vec<Placed> {
    let mut costs: Vec<Cost> = Vec::with_capacity(steps.len());
    for step in steps {
        let on_host: f64 = step.inputs.iter().map(|input| costs[*input].host).sum();
        let host = step.host.map_or(f64::INFINITY, |host| host * MARGIN) + on_host;
        let ways = step.ways.iter().enumerate();
        let (way, device) = ways
            .map(|(i, way)| (Some(i), cost_of(way, &costs)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((None, f64::INFINITY));
        let brought_down = device + step.down.seconds <= host;
        costs.push(Cost {
            host: host.min(device + step.down.seconds),
            brought_down,
            device: device + step.stay,
            way: way.filter(|_| device.is_finite()),
        });
    }
    let mut marks = vec![Mark::default(); steps.len()];
    if let Some(last) = steps.len().checked_sub(1) {
        mark(steps, &costs, &mut marks, last, false);
    }
    (0..steps.len())
        .map(|i| Placed {
            on_device: marks[i].on_device,
            estimate: estimate(steps, &costs, &marks, i),
        })
        .collect()
}

fn cost_of(way: &Way, costs: &[Cost]) -> f64 {
    let inputs = way.inputs.iter().map(|(input, up)| match up {
        Some(up) => costs[*input].device.min(costs[*input].host + up.seconds),
        None => costs[*input].device,
    });
    way.seconds + inputs.sum::<f64>()
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    on_device: bool,
    /// Its rows go to the host.
    down: bool,
    /// Another step does it too.
    along: bool,
}

/// Marks what the cheapest placement has on the device, of a step whose rows are wanted there or on the host, and below it.
fn mark(steps: &[Step], costs: &[Cost], marks: &mut [Mark], i: usize, there: bool) {
    let step = &steps[i];
    let way = costs[i].way.map(|way| &step.ways[way]);
    match way.filter(|_| there || costs[i].brought_down) {
        Some(way) => {
            marks[i].on_device = true;
            marks[i].down |= !there;
            if let Some(along) = way.along {
                marks[along].on_device = true;
                marks[along].along = true;
            }
            for (input, up) in &way.inputs {
                let there = match up {
                    Some(up) => costs[*input].device <= costs[*input].host + up.seconds,
                    None => true,
                };
                mark(steps, costs, marks, *input, there);
            }
        }
        None => {
            for input in &step.inputs {
                mark(steps, costs, marks, *input, false);
            }
        }
    }
}

fn estimate(steps: &[Step], costs: &[Cost], marks: &[Mark], i: usize) -> Estimate {
    let step = &steps[i];
    let (mut up, mut down) = (Border::default(), step.down);
    let mut seconds = 0.0;
    let mut host = step.host.unwrap_or_default();
    if marks[i].along {
        // Its costs are those of the step that does it.
        down = Border::default();
    } else if let Some(way) = costs[i].way.map(|way| &step.ways[way]) {
        for (input, border) in &way.inputs {
            if let (false, Some(border)) = (marks[*input].on_device, border) {
                up.seconds += border.seconds;
                up.bytes += border.bytes;
            }
        }
        seconds = way.seconds;
        host += way.along.and_then(|i| steps[i].host).unwrap_or_default();
        if marks[i].on_device && !marks[i].down {
            down = Border::default();
            seconds += step.stay;
        }
    }
    Estimate {
        rows: step.rows.map(|rows| rows as u64),
        bytes_up: up.bytes as u64,
        bytes_down: down.bytes as u64,
        device_ms: (seconds + up.seconds + down.seconds) * 1e3,
        host_ms: host * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn border(seconds: f64) -> Border {
        Border {
            seconds,
            bytes: seconds * 1e9,
        }
    }

    fn scan() -> Step {
        Step {
            host: Some(0.0),
            ..Step::default()
        }
    }

    fn node(host: f64, device: f64, inputs: &[(usize, f64)], down: f64) -> Step {
        let ups = inputs.iter().map(|(input, up)| (*input, Some(border(*up))));
        Step {
            inputs: inputs.iter().map(|(input, _)| *input).collect(),
            host: Some(host),
            ways: vec![Way {
                seconds: device,
                along: None,
                inputs: ups.collect(),
            }],
            down: border(down),
            ..Step::default()
        }
    }

    fn on_device(steps: &[Step]) -> Vec<usize> {
        let placed = place(steps).into_iter().enumerate();
        placed
            .filter(|(_, step)| step.on_device)
            .map(|(i, _)| i)
            .collect()
    }

    #[test]
    fn what_does_not_pay_for_its_borders_stays() {
        let join = |up| vec![scan(), scan(), node(1.0, 0.1, &[(0, up), (1, up)], 0.2)];
        assert_eq!(on_device(&join(0.2)), [2]);
        assert_eq!(on_device(&join(0.3)), [0usize; 0]);
        let placed = place(&join(0.3))[2];
        assert_eq!(placed.estimate.bytes_up, 600_000_000);
        assert_eq!(placed.estimate.bytes_down, 200_000_000);
        assert!((placed.estimate.device_ms - 900.0).abs() < 1e-6);
        assert_eq!(placed.estimate.host_ms, 1000.0);
    }

    /// Two joins, neither of which pays alone.
    #[test]
    fn a_chain_pays_where_its_nodes_alone_do_not() {
        let first = node(1.0, 0.1, &[(0, 0.4), (1, 0.0)], 0.6);
        let alone = vec![scan(), scan(), first.clone()];
        assert_eq!(on_device(&alone), [0usize; 0]);
        let chain = vec![
            scan(),
            scan(),
            first,
            scan(),
            node(1.0, 0.1, &[(2, 0.6), (3, 0.1)], 0.1),
        ];
        assert_eq!(on_device(&chain), [2, 4]);
        let placed = place(&chain);
        assert_eq!(placed[2].estimate.bytes_down, 0);
        assert_eq!(placed[4].estimate.bytes_up, 100_000_000);
    }

    #[test]
    fn nodes_between_need_rows_that_are_there() {
        let mut filter = node(0.0, 0.01, &[(0, 0.0)], 0.1);
        filter.ways[0].inputs[0].1 = None;
        // Above a scan it stays on the host.
        assert_eq!(on_device(&[scan(), filter.clone()]), [0usize; 0]);
        filter.inputs = vec![1];
        filter.ways[0].inputs[0].0 = 1;
        let chain = vec![
            scan(),
            node(1.0, 0.1, &[(0, 0.1)], 0.3),
            filter,
            node(1.0, 0.1, &[(2, 0.3)], 0.0),
        ];
        assert_eq!(on_device(&chain), [1, 2, 3]);
    }

    #[test]
    fn the_part_of_a_chain_that_pays_is_kept() {
        let chain = vec![
            scan(),
            node(1.0, 0.1, &[(0, 0.1)], 0.01),
            // Its other input is too wide.
            scan(),
            node(0.1, 0.1, &[(1, 0.01), (2, 5.0)], 0.1),
        ];
        assert_eq!(on_device(&chain), [1]);
    }

    #[test]
    fn a_fused_aggregation_takes_its_join_along() {
        let mut group = node(1.0, 0.1, &[(2, 1.0)], 0.0);
        group.ways.push(Way {
            seconds: 0.1,
            along: Some(2),
            inputs: vec![(0, Some(border(0.1))), (1, Some(border(0.1)))],
        });
        let steps = vec![
            scan(),
            scan(),
            node(0.5, 0.5, &[(0, 0.1), (1, 0.1)], 1.0),
            group,
        ];
        assert_eq!(on_device(&steps), [2, 3]);
        let placed = place(&steps);
        assert_eq!(placed[3].estimate.host_ms, 1500.0);
        assert_eq!(placed[2].estimate.device_ms, 0.0);
    }

    #[test]
    fn what_gains_anyway_is_taken_at_any_price() {
        let mut theta = node(0.0, 9.0, &[(0, 9.0)], 9.0);
        theta.host = None;
        assert_eq!(on_device(&[scan(), theta]), [1]);
    }
}
