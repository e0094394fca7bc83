//! [`Transfers`] removes an upload above a download, directly or through nodes of DataFusion that a device node can stand for.
//!
//! ```text
//! BowtieJoinExec                              BowtieJoinExec
//!   BowtieUploadExec                 ──►        BowtieJoinExec: … columns of the projection
//!     ProjectionExec: plain columns             …
//!       BowtieDownloadExec
//!         BowtieJoinExec
//!   …
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::compat::node_names;
use crate::exec::chunk::chunk_limits::Role;
use crate::exec::join::node::JoinOperator;
use crate::exec::node::DeviceNode;
use crate::exec::rows::filter::FilterOperator;
use crate::exec::rows::projection::ProjectionOperator;
use crate::exec::rows::union::UnionOperator;
use crate::exec::scan::node::{ScanOperator, scan_of};
use crate::exec::transfer::download::BowtieDownloadExec;
use crate::exec::transfer::upload::UploadOperator;
use crate::plan::compile::distinct::is_of_shingles;
use crate::plan::compile::permitted::{Use, permits};
use crate::plan::compile::row_program::{self, NotCompiled};
use crate::plan::device_plan::device_node;
use crate::plan::recognise::candidate::{Candidate, NodeId, RowsCandidate};
use crate::plan::recognise::recognised_plan::RecognisedPlan;
use crate::plan::sources::partitions::only_partitions;
use crate::plan::statistics::distinct::{are_few, are_few_in};
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::runtime::planned_device::PlannedDevice;
use crate::spec::join::SideInput;
use crate::spec::rows::{ExpressionColumn, FilterSpec, Projected, ProjectionSpec, RowExpressions};

type Plan = Arc<dyn ExecutionPlan>;

/// A node that stays on the host between two device nodes, because of one of its expressions.
#[derive(Debug)]
pub(crate) struct HostStep {
    pub(crate) id: NodeId,
    /// Whether it is the upload of that node's rows, not the node itself.
    pub(crate) is_upload: bool,
    pub(crate) node: String,
    /// The first such expression.
    pub(crate) expression: String,
    pub(crate) why: Why,
}

/// Why an expression is evaluated on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    NotCompiled,
    /// It cannot be compiled, and nothing is gained by evaluating it by distinct values.
    ManyValues,
}

impl HostStep {
    /// An expression does not compile.
    fn new(
        id: NodeId,
        node: &str,
        expressions: &[Arc<dyn PhysicalExpr>],
        error: NotCompiled,
    ) -> Self {
        let expression = expressions.get(error.expression);
        Self {
            id,
            is_upload: false,
            node: node.to_string(),
            expression: shown(expression),
            why: Why::NotCompiled,
        }
    }

    /// An expression is evaluated by distinct values.
    pub(crate) fn of_many_values(id: NodeId, node: &str, expressions: &RowExpressions) -> Self {
        let part = expressions.distinct.first();
        Self {
            id,
            is_upload: false,
            node: node.to_string(),
            expression: shown(part.map(|part| &part.expression)),
            why: Why::ManyValues,
        }
    }
}

impl HostStep {
    /// The same, of the upload of the node's rows.
    fn of_upload(self) -> Self {
        Self {
            is_upload: true,
            ..self
        }
    }
}

fn shown(expression: Option<&Arc<dyn PhysicalExpr>>) -> String {
    let shown = expression.map(|expression| fmt_sql(expression.as_ref()).to_string());
    shown.unwrap_or_default()
}

/// Whether a projection has the lists of windows of texts, which a device makes of these.
fn makes_shingles(candidate: &Candidate) -> bool {
    let Candidate::Rows(rows) = candidate else {
        return false;
    };
    let Ok(Some(compiled)) = rows.compiled() else {
        return false;
    };
    let mut columns = compiled.columns.iter();
    columns.any(|column| matches!(column, ExpressionColumn::Shingles { .. }))
}

/// Brings rows to a device.
pub(crate) struct Transfers<'a> {
    pub(crate) plan: &'a RecognisedPlan,
    pub(crate) device: &'a Arc<PlannedDevice>,
    /// The most bytes of a table whose columns stay on the device; 0 if none do.
    pub(crate) cache: u64,
    /// Statistics of nodes, by which expressions that gain nothing stay on the host; `None` where they are offloaded all the same.
    pub(crate) statistics: Option<&'a StatisticsCache>,
    pub(crate) host_steps: &'a mut Vec<HostStep>,
}

impl Transfers<'_> {
    /// `columns` of the rows of `rewritten`, which node `id` became, on the device.
    pub(crate) fn upload(
        &mut self,
        id: NodeId,
        rewritten: Plan,
        columns: &SideInput,
        role: Role,
    ) -> Result<Plan> {
        let operator = UploadOperator {
            columns: columns.clone(),
            role,
            of: Arc::clone(&self.plan.node(id).plan),
        };
        let upload = device_node(operator, vec![Arc::clone(&rewritten)], self.device)?;
        let below = match self.resident(id, &rewritten, role)? {
            None if self.saves_lists(role) && columns.expressions.iter().any(is_of_shingles) => {
                Some(self.as_they_are(id, &rewritten, role)?)
            }
            below => below,
        };
        let resident = match below {
            Some(below) => self.evaluated(id, &upload, columns, role, &rewritten, below)?,
            None => None,
        };
        Ok(resident.unwrap_or(upload))
    }

    /// The resident rows of `rewritten`, if all nodes that make them can be on the device.
    pub(crate) fn resident(
        &mut self,
        id: NodeId,
        rewritten: &Plan,
        role: Role,
    ) -> Result<Option<Plan>> {
        if let Some(download) = rewritten.downcast_ref::<BowtieDownloadExec>() {
            return match download.device().is_same_as(self.device) {
                true => DeviceNode::with_output_on_device(download.input()),
                false => Ok(None),
            };
        }
        let node = self.plan.node(id);
        if self.cache > 0
            && let Some(scan) = scan_of(rewritten, role, self.cache)
        {
            return self.scanned(id, scan);
        }
        // A device node has one partition.
        if let ([input], [below]) = (&node.inputs[..], &rewritten.children()[..])
            && only_partitions(rewritten)
        {
            return self.resident(*input, below, role);
        }
        if !matches!(node.candidate, Candidate::Rows(_) | Candidate::Union) {
            return Ok(None);
        }
        let mut inputs = vec![];
        for (input, rewritten) in node.inputs.iter().zip(rewritten.children()) {
            match self.resident(*input, rewritten, role)? {
                Some(below) => inputs.push(below),
                None if self.saves_lists(role) && makes_shingles(&node.candidate) => {
                    inputs.push(self.as_they_are(*input, rewritten, role)?);
                }
                None => return Ok(None),
            }
        }
        let rows = match &node.candidate {
            Candidate::Rows(rows) => rows,
            _ => {
                let operator = UnionOperator(rewritten.schema());
                return device_node(operator, inputs, self.device).map(Some);
            }
        };
        let Ok([below]) = <[Plan; 1]>::try_from(inputs) else {
            return Ok(None);
        };
        if let Some(projection) = node.plan.downcast_ref::<ProjectionExec>() {
            return self.projected(id, projection, rows, below);
        }
        match node.plan.downcast_ref::<FilterExec>() {
            Some(filter) => self.filtered(id, filter, rows, below),
            None => Ok(None),
        }
    }

    /// Whether texts are uploaded instead of the lists of their windows, which have many times the bytes.
    fn saves_lists(&self, role: Role) -> bool {
        self.device.is_gpu() && matches!(role, Role::Left | Role::Right)
    }

    /// An upload of all columns of `rewritten`, which node `id` became.
    fn as_they_are(&self, id: NodeId, rewritten: &Plan, role: Role) -> Result<Plan> {
        let operator = UploadOperator {
            columns: SideInput::new(rewritten.schema()),
            role,
            of: Arc::clone(&self.plan.node(id).plan),
        };
        device_node(operator, vec![Arc::clone(rewritten)], self.device)
    }

    /// Whether expressions over the rows of `input` stay on the host, though they compile.
    fn loses(
        &mut self,
        id: NodeId,
        node: &str,
        input: &Plan,
        expressions: &RowExpressions,
    ) -> bool {
        let loses = self
            .statistics
            .is_some_and(|statistics| !are_few(input, statistics, expressions));
        if loses {
            let step = HostStep::of_many_values(id, node, expressions);
            self.host_steps.push(step);
        }
        loses
    }

    /// A scan, with the filter that DataFusion's own scan applies above it; `None` where the device cannot evaluate that.
    fn scanned(&mut self, id: NodeId, scan: ScanOperator) -> Result<Option<Plan>> {
        let filter = scan.table.filter().cloned();
        let input = Arc::clone(scan.table.schema());
        let table = scan.table.clone();
        let scan = device_node(scan, vec![], self.device)?;
        let Some(filter) = filter else {
            return Ok(Some(scan));
        };
        let expressions = [filter.predicate];
        let predicate = match row_program::compile(&expressions, &input) {
            Ok(predicate) => predicate,
            Err(error) => {
                let step = HostStep::new(id, node_names::SCAN, &expressions, error);
                self.host_steps.push(step);
                return Ok(None);
            }
        };
        if self.statistics.is_some() && !are_few_in(&table, &predicate) {
            let step = HostStep::of_many_values(id, node_names::SCAN, &predicate);
            self.host_steps.push(step);
            return Ok(None);
        }
        let spec = FilterSpec {
            predicate,
            columns: filter.columns,
            schema: filter.schema,
        };
        let operator = FilterOperator(Arc::new(spec));
        device_node(operator, vec![scan], self.device).map(Some)
    }

    /// The expressions of an upload of the rows of `rows_of`, beside the columns of a device node; `None` where the device cannot evaluate them.
    fn evaluated(
        &mut self,
        id: NodeId,
        upload: &Plan,
        columns: &SideInput,
        role: Role,
        rows_of: &Plan,
        below: Plan,
    ) -> Result<Option<Plan>> {
        let expressions = &columns.expressions;
        let input = &rows_of.schema();
        if expressions.is_empty() {
            return Ok(Some(below));
        }
        // A join may do without a value on rows that it drops, and asks for the error later, if at all.
        let may_fail = |expression: &Arc<dyn PhysicalExpr>| match is_of_shingles(expression) {
            // One that compiles has a length that is known, and a device has no lists that could be too long.
            true => !expression
                .children()
                .into_iter()
                .all(|argument| permits(argument, Use::Move(input))),
            false => !permits(expression, Use::Move(input)),
        };
        if role != Role::Grouped && expressions.iter().any(may_fail) {
            return Ok(None);
        }
        let compiled = match row_program::compile(expressions, input) {
            Ok(compiled) => compiled,
            Err(error) => {
                let step = HostStep::new(id, upload.name(), expressions, error);
                self.host_steps.push(step.of_upload());
                return Ok(None);
            }
        };
        if self.loses(id, upload.name(), rows_of, &compiled) {
            let step = self.host_steps.pop();
            self.host_steps.extend(step.map(HostStep::of_upload));
            return Ok(None);
        }
        let columns = (0..input.fields().len()).map(Projected::Input);
        let computed = (0..expressions.len()).map(Projected::Computed);
        let spec = ProjectionSpec {
            columns: columns.chain(computed).collect(),
            computed: Some(compiled),
            schema: upload.schema(),
        };
        let operator = ProjectionOperator(Arc::new(spec));
        device_node(operator, vec![below], self.device).map(Some)
    }

    /// A projection of the rows of a device node; `None` where the device cannot evaluate its expressions. Columns of a join become the
    /// join's own output, which then does not gather the others.
    fn projected(
        &mut self,
        id: NodeId,
        projection: &ProjectionExec,
        rows: &RowsCandidate,
        below: Plan,
    ) -> Result<Option<Plan>> {
        let mut computed = 0;
        let mut columns: Vec<Projected> = vec![];
        for projected in projection.expr() {
            columns.push(match projected.expr.downcast_ref::<Column>() {
                Some(column) => Projected::Input(column.index()),
                None => {
                    computed += 1;
                    Projected::Computed(computed - 1)
                }
            });
        }
        let passed: Vec<usize> = columns.iter().filter_map(|column| column.input()).collect();
        let join = DeviceNode::find::<JoinOperator>(&below);
        let compiled = match (rows.compiled(), &join) {
            (Ok(None), Some((node, join))) => {
                let join = Arc::new(join.with_output(&passed)?);
                return Ok(Some(Arc::new(node.with_operator(join)?)));
            }
            (Ok(compiled), _) => compiled,
            (Err(error), _) => {
                let step = HostStep::new(id, projection.name(), rows.expressions(), error);
                self.host_steps.push(step);
                return Ok(None);
            }
        };
        if let Some(compiled) = compiled
            && self.loses(id, projection.name(), projection.input(), compiled)
        {
            return Ok(None);
        }
        let (mut compiled, mut input) = (compiled.cloned(), Arc::clone(&below));
        if let (Some((node, join)), Some(expressions)) = (join, &mut compiled) {
            let read = expressions.expressions.iter().flat_map(collect_columns);
            let read = read.map(|column| column.index()).chain(passed);
            let read = Vec::from_iter(read.collect::<BTreeSet<usize>>());
            let place = |column: usize| read.binary_search(&column).unwrap_or(column);
            let schema = Arc::new(expressions.input.project(&read)?);
            *expressions = expressions.over(schema, &place)?;
            for column in &mut columns {
                if let Projected::Input(i) = column {
                    *i = place(*i);
                }
            }
            let join = Arc::new(join.with_output(&read)?);
            input = Arc::new(node.with_operator(join)?);
        }
        let spec = ProjectionSpec {
            columns,
            computed: compiled,
            schema: projection.schema(),
        };
        let operator = ProjectionOperator(Arc::new(spec));
        device_node(operator, vec![input], self.device).map(Some)
    }

    /// A filter of the rows of a device node; `None` where the device cannot evaluate it.
    fn filtered(
        &mut self,
        id: NodeId,
        filter: &FilterExec,
        rows: &RowsCandidate,
        below: Plan,
    ) -> Result<Option<Plan>> {
        let predicate = match rows.compiled() {
            Ok(Some(predicate)) => predicate.clone(),
            Ok(None) => return Ok(None),
            Err(error) => {
                let step = HostStep::new(id, filter.name(), rows.expressions(), error);
                self.host_steps.push(step);
                return Ok(None);
            }
        };
        if self.loses(id, filter.name(), filter.input(), &predicate) {
            return Ok(None);
        }
        let columns = match filter.projection() {
            Some(columns) => columns.to_vec(),
            None => (0..predicate.input.fields().len()).collect(),
        };
        let spec = FilterSpec {
            predicate,
            columns,
            schema: filter.schema(),
        };
        let operator = FilterOperator(Arc::new(spec));
        device_node(operator, vec![below], self.device).map(Some)
    }
}
