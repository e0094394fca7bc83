//! Which nodes of a plan run on a GPU: the cheapest placement of all of them, transfers included.
//!
//! ```text
//! host(n)   = least of  DataFusion's own n above host(inputs)       device(n) + download of its rows
//! device(n) = least of  each alternative on the device, above       device(input), or host(input) + upload of its rows
//! ```
//!
//! So a join whose input is resident needs no upload of it, and one whose rows stay resident needs no download.

use crate::error::Decline;
use crate::plan::recognise::candidate::NodeId;

/// A transfer between host and device: its time and its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Transfer {
    pub seconds: f64,
    pub bytes: f64,
}

/// What one node of the plan costs, wherever it runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeCost {
    /// Its inputs in DataFusion's plan.
    pub inputs: Vec<NodeId>,
    /// Seconds of DataFusion's node; `None` for a node that is offloaded at any price.
    pub host: Option<f64>,
    /// How a device can run it.
    pub alternatives: Vec<Alternative>,
    /// The transfer of its rows to the host.
    pub download: Transfer,
    /// Seconds that it costs to keep its rows on the device.
    pub resident: f64,
    /// Its cardinality.
    pub rows: Option<f64>,
}

/// A node on the device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alternative {
    pub seconds: f64,
    /// The node below that is one with it.
    pub fused: Option<NodeId>,
    /// Nodes whose rows it reads, with the transfer of rows on the host; `None`: it reads resident rows alone.
    pub inputs: Vec<(NodeId, Option<Transfer>)>,
}

/// Where a node runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    pub on_device: bool,
    /// The host reads its rows from the device.
    pub downloads: bool,
    pub estimate: Estimate,
}

/// What a node costs: on the device, with the transfers that it needs there, and in DataFusion.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Estimate {
    pub rows: Option<u64>,
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub device_ms: f64,
    pub host_ms: f64,
}

impl Estimate {
    /// The reason of a node that runs no sooner on the device.
    pub(crate) fn decline(&self, min_speedup: f64) -> Decline {
        Decline(format!(
            "estimated at {:.1} ms on the device with its transfers, at {:.1} ms in DataFusion; bowtie.min_speedup asks for {min_speedup} times as fast",
            self.device_ms, self.host_ms
        ))
    }
}

/// The least seconds to have a node's rows on the host, and on the device.
#[derive(Debug, Clone, Copy)]
struct Cost {
    host: f64,
    /// Infinite without an alternative.
    device: f64,
    alternative: Option<usize>,
    /// Whether the host's rows are downloaded. Computed once: a sum of which a term is subtracted again is rounded.
    downloads: bool,
}

/// Places each node; the host reads the rows of the last one. A node stays where it is, unless the device is estimated to be
/// `min_speedup` times as fast.
pub(crate) fn place(nodes: &[NodeCost], min_speedup: f64) -> Vec<Placed> {
    let mut costs: Vec<Cost> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let on_host: f64 = node.inputs.iter().map(|input| costs[*input].host).sum();
        let host = node.host.map_or(f64::INFINITY, |host| host / min_speedup) + on_host;
        let alternatives = node.alternatives.iter().enumerate();
        let (alternative, device) = alternatives
            .map(|(i, alternative)| (Some(i), cost_of(alternative, &costs)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((None, f64::INFINITY));
        let downloads = device + node.download.seconds <= host;
        costs.push(Cost {
            host: host.min(device + node.download.seconds),
            downloads,
            device: device + node.resident,
            alternative: alternative.filter(|_| device.is_finite()),
        });
    }
    let mut marks = vec![Mark::default(); nodes.len()];
    if let Some(last) = nodes.len().checked_sub(1) {
        mark(nodes, &costs, &mut marks, last, false);
    }
    (0..nodes.len())
        .map(|i| Placed {
            on_device: marks[i].on_device,
            downloads: marks[i].downloads,
            estimate: estimate(nodes, &costs, &marks, i),
        })
        .collect()
}

fn cost_of(alternative: &Alternative, costs: &[Cost]) -> f64 {
    let inputs = alternative.inputs.iter().map(|(input, up)| match up {
        Some(up) => costs[*input].device.min(costs[*input].host + up.seconds),
        None => costs[*input].device,
    });
    alternative.seconds + inputs.sum::<f64>()
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    on_device: bool,
    /// The host reads its rows.
    downloads: bool,
    /// It is one node with the one above.
    fused: bool,
}

/// Marks what the cheapest placement has on the device: of a node whose rows are read there or on the host, and of the nodes below it.
fn mark(nodes: &[NodeCost], costs: &[Cost], marks: &mut [Mark], i: usize, on_device: bool) {
    let node = &nodes[i];
    let alternative = costs[i].alternative.map(|i| &node.alternatives[i]);
    match alternative.filter(|_| on_device || costs[i].downloads) {
        Some(alternative) => {
            marks[i].on_device = true;
            marks[i].downloads |= !on_device;
            if let Some(fused) = alternative.fused {
                marks[fused].on_device = true;
                marks[fused].fused = true;
            }
            for (input, up) in &alternative.inputs {
                let on_device = match up {
                    Some(up) => costs[*input].device <= costs[*input].host + up.seconds,
                    None => true,
                };
                mark(nodes, costs, marks, *input, on_device);
            }
        }
        None => {
            for input in &node.inputs {
                mark(nodes, costs, marks, *input, false);
            }
        }
    }
}

fn estimate(nodes: &[NodeCost], costs: &[Cost], marks: &[Mark], i: usize) -> Estimate {
    let node = &nodes[i];
    let (mut up, mut down) = (Transfer::default(), node.download);
    let mut seconds = 0.0;
    let mut host = node.host.unwrap_or_default();
    if marks[i].fused {
        // Its costs are counted at the node above.
        down = Transfer::default();
    } else if let Some(alternative) = costs[i].alternative.map(|i| &node.alternatives[i]) {
        for (input, upload) in &alternative.inputs {
            if let (false, Some(upload)) = (marks[*input].on_device, upload) {
                up.seconds += upload.seconds;
                up.bytes += upload.bytes;
            }
        }
        seconds = alternative.seconds;
        host += alternative
            .fused
            .and_then(|i| nodes[i].host)
            .unwrap_or_default();
        if marks[i].on_device && !marks[i].downloads {
            down = Transfer::default();
            seconds += node.resident;
        }
    }
    Estimate {
        rows: node.rows.map(|rows| rows as u64),
        bytes_up: up.bytes as u64,
        bytes_down: down.bytes as u64,
        device_ms: (seconds + up.seconds + down.seconds) * 1e3,
        host_ms: host * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(seconds: f64) -> Transfer {
        Transfer {
            seconds,
            bytes: seconds * 1e9,
        }
    }

    fn scan() -> NodeCost {
        NodeCost {
            host: Some(0.0),
            ..NodeCost::default()
        }
    }

    fn node(host: f64, device: f64, inputs: &[(usize, f64)], down: f64) -> NodeCost {
        let ups = inputs
            .iter()
            .map(|(input, up)| (*input, Some(transfer(*up))));
        NodeCost {
            inputs: inputs.iter().map(|(input, _)| *input).collect(),
            host: Some(host),
            alternatives: vec![Alternative {
                seconds: device,
                fused: None,
                inputs: ups.collect(),
            }],
            download: transfer(down),
            ..NodeCost::default()
        }
    }

    fn on_device(nodes: &[NodeCost]) -> Vec<usize> {
        let placed = place(nodes, 1.25).into_iter().enumerate();
        placed
            .filter(|(_, step)| step.on_device)
            .map(|(i, _)| i)
            .collect()
    }

    #[test]
    fn a_node_that_gains_less_than_its_transfers_stays() {
        let join = |up| vec![scan(), scan(), node(1.0, 0.1, &[(0, up), (1, up)], 0.2)];
        assert_eq!(on_device(&join(0.2)), [2]);
        assert_eq!(on_device(&join(0.3)), [0usize; 0]);
        let placed = place(&join(0.3), 1.25)[2];
        assert_eq!(placed.estimate.bytes_up, 600_000_000);
        assert_eq!(placed.estimate.bytes_down, 200_000_000);
        assert!((placed.estimate.device_ms - 900.0).abs() < 1e-6);
        assert_eq!(placed.estimate.host_ms, 1000.0);
    }

    /// Two joins, neither of which gains alone.
    #[test]
    fn a_chain_gains_where_its_nodes_alone_do_not() {
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
        let placed = place(&chain, 1.25);
        assert_eq!(placed[2].estimate.bytes_down, 0);
        assert_eq!(placed[4].estimate.bytes_up, 100_000_000);
    }

    #[test]
    fn nodes_between_need_resident_rows() {
        let mut filter = node(0.0, 0.01, &[(0, 0.0)], 0.1);
        filter.alternatives[0].inputs[0].1 = None;
        // Above a scan it stays on the host.
        assert_eq!(on_device(&[scan(), filter.clone()]), [0usize; 0]);
        filter.inputs = vec![1];
        filter.alternatives[0].inputs[0].0 = 1;
        let chain = vec![
            scan(),
            node(1.0, 0.1, &[(0, 0.1)], 0.3),
            filter,
            node(1.0, 0.1, &[(2, 0.3)], 0.0),
        ];
        assert_eq!(on_device(&chain), [1, 2, 3]);
    }

    #[test]
    fn the_part_of_a_chain_that_gains_is_kept() {
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
    fn a_fused_aggregation_places_its_join() {
        let mut group = node(1.0, 0.1, &[(2, 1.0)], 0.0);
        group.alternatives.push(Alternative {
            seconds: 0.1,
            fused: Some(2),
            inputs: vec![(0, Some(transfer(0.1))), (1, Some(transfer(0.1)))],
        });
        let steps = vec![
            scan(),
            scan(),
            node(0.5, 0.5, &[(0, 0.1), (1, 0.1)], 1.0),
            group,
        ];
        assert_eq!(on_device(&steps), [2, 3]);
        let placed = place(&steps, 1.25);
        assert_eq!(placed[3].estimate.host_ms, 1500.0);
        assert_eq!(placed[2].estimate.device_ms, 0.0);
    }

    #[test]
    fn a_node_without_an_alternative_is_offloaded_at_any_price() {
        let mut theta = node(0.0, 9.0, &[(0, 9.0)], 9.0);
        theta.host = None;
        assert_eq!(on_device(&[scan(), theta]), [1]);
    }
}
