//! Aggregations as candidates, alone and above joins.

use crate::exec::aggregate::resident::are_results;
use crate::exec::partition::grace_join::Oversized;
use crate::plan::choose::address::{Plan, address};
use crate::plan::choose::candidates::{Candidates, Joined, MANY_ROWS, ROWS_OF_A_GROUP};
use crate::plan::choose::cardinality::{columns_of, columns_of_fused, is_text};
use crate::plan::choose::cost::Work;
use crate::plan::choose::fusion::apart;
use crate::plan::choose::placement::{Border, Step, Way};
use crate::plan::choose::strategy::Taking;
use crate::plan::recognise::aggregate::{group_above_join, group_spec};
use crate::plan::recognise::aggregate_source::{GroupSource, group_source};
use crate::plan::recognise::join::join_spec;
use crate::plan::recognise::join_aggregate::{aggregate_source, join_aggregate_spec};
use crate::plan::recognise::source::join_source;
use crate::spec::aggregate::GroupState;

impl<'a> Candidates<'a> {
    /// What an aggregation can do with the join that it reads.
    fn above_join(&mut self, plan: &Plan, source: &GroupSource<'_>) -> Option<Joined> {
        let above = aggregate_source(plan)?;
        let join = join_source(above.join)?.ok()?;
        let step = *self.known.get(&address(above.join))?;
        let inputs = [
            *self.known.get(&address(&join.left))?,
            *self.known.get(&address(&join.right))?,
        ];
        let rows = self.flows.0.sides(&join);
        let spec = |taking| join_spec(&join, self.options, rows, taking).ok();
        let gains = spec(Taking::Gains);
        let always = gains.is_some();
        let spec = gains.or_else(|| spec(Taking::All))?;
        let statistics = self.flows.0;
        let apart = |fused: &_| {
            apart(
                source,
                &above,
                self.options,
                spec.clone(),
                fused,
                &join,
                statistics,
            )
        };
        if let Ok(fused) = join_aggregate_spec(&above, spec.clone())
            && apart(&fused).is_none()
        {
            let rows = self.side_rows(&join, inputs);
            // Taken anyway, at no known price.
            let rows = rows.or(always.then_some((0.0, 0.0)))?;
            let columns = columns_of_fused(&fused);
            let flows = self.flows.sides(&join, &fused.join, rows, &columns);
            return Some(Joined::Fused {
                always,
                step,
                inputs,
                flows,
                larger: Oversized::of(&fused.join),
            });
        }
        let output_on_device = group_above_join(source, &above, self.options, spec).is_ok();
        output_on_device.then_some(Joined::Above(step))
    }

    /// Groups that come out, where the plan knows it.
    fn known_groups(&self, plan: &Plan, source: &GroupSource<'_>, rows: f64) -> Option<f64> {
        if source.bottom.group_expr().is_true_no_grouping() {
            return Some(1.0);
        }
        let of = self.flows.rows(source.bottom.input());
        let groups = self.flows.rows(plan)?;
        of.is_some_and(|of| groups < of).then(|| groups.min(rows))
    }

    /// `None` for what is no aggregation that a device could take.
    pub(crate) fn group(&mut self, plan: &Plan) -> Option<Step> {
        let source = group_source(plan)?;
        let below = source.bottom.input();
        let input = self.add(below);
        let grouped = group_spec(&source, self.options, Taking::All).ok();
        let joined = self.above_join(plan, &source);
        let Some(rows) = self.rows(below, input) else {
            if grouped.is_some() {
                let unknown =
                    "how many rows its input has is not known, so neither is whether transfers pay";
                self.candidate(plan, Some(unknown));
            }
            return Some(self.passing(plan, vec![input]));
        };
        let known = self.known_groups(plan, &source, rows);
        let groups = known.unwrap_or((rows / ROWS_OF_A_GROUP).max(1.0));
        let aggregates = source.bottom.aggr_expr().len();
        let mut ways = vec![];
        let (mut finish, mut stay) = (self.gpu.finish(groups, aggregates), f64::INFINITY);
        let output = self.flows.output(plan, groups);
        let of_keys = source.bottom.group_expr().expr().iter();
        let of_keys = of_keys.filter_map(|(key, _)| key.data_type(&below.schema()).ok());
        let text_keys = of_keys.filter(is_text).count();
        let work = |flow| Work::Group {
            input: flow,
            groups,
            aggregates,
            text_keys,
            // Of few rows, groups that nobody counted may be few too.
            twice: !std::ptr::eq(source.top, source.bottom)
                && (known.is_some() || rows >= MANY_ROWS),
        };
        let larger = |of: &Self, flow| of.gpu.chunks_of_groups(flow, groups, of.host);
        if let Some(spec) = &grouped {
            let flow = self.flows.of(below, &spec.input, rows, columns_of(spec));
            ways.push(Way {
                seconds: self.gpu.seconds(&work(flow)) + larger(self, flow),
                along: None,
                inputs: vec![(input, Some(self.up(flow, 1.0)))],
            });
            let lists = spec
                .aggregates
                .iter()
                .filter(|a| a.state != GroupState::Folds);
            finish += self.gpu.finish(rows, 1) * lists.count() as f64;
            stay = match are_results(spec) {
                true => self.gpu.output_on_device(output, self.host),
                false => finish + self.down(output).seconds + self.up(output, 1.0).seconds,
            };
        }
        let always = matches!(&joined, Some(Joined::Fused { always: true, .. }));
        match joined {
            Some(Joined::Fused {
                step,
                inputs,
                flows,
                larger,
                ..
            }) => {
                let meeting = self.gpu.meeting(larger, flows.0, flows.1, self.host);
                let work = Work::JoinGroup {
                    left: flows.0,
                    right: flows.1,
                    groups,
                    aggregates,
                };
                ways.push(Way {
                    seconds: self.gpu.seconds(&work) + meeting.seconds,
                    along: Some(step),
                    inputs: self.sides(inputs, flows, meeting.left_times),
                });
            }
            Some(Joined::Above(step)) => {
                let flow = self.flows.output(below, rows);
                ways.push(Way {
                    seconds: self.gpu.seconds(&work(flow)) + larger(self, flow),
                    along: None,
                    inputs: vec![(step, None)],
                });
            }
            None => {}
        }
        if grouped.is_none() && !ways.is_empty() {
            stay = finish + self.down(output).seconds + self.up(output, 1.0).seconds;
        }
        if !ways.is_empty() && !always {
            self.candidate(plan, None);
        }
        let flow = self.flows.output(below, rows);
        let down = self.down(output);
        Some(Step {
            inputs: vec![input],
            host: (!always).then(|| self.host.seconds(&work(flow))),
            ways,
            down: Border {
                seconds: down.seconds + finish,
                ..down
            },
            stay,
            rows: Some(groups),
        })
    }
}
