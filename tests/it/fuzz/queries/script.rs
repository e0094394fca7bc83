//! The statements of one case: views and a prepared statement first, then the query. Values of its parameters may be given to its data frame instead.

use crate::fuzz::queries::draw::Draw;
use crate::fuzz::queries::tables::table;
use crate::fuzz::queries::writer::{Column, Kind, Relation, Site, Subqueries, Table, Writer};

#[derive(Debug)]
pub(super) struct Script {
    /// Names of the tables, and the queries of their rows.
    pub tables: Vec<(String, String)>,
    pub setup: Vec<String>,
    pub query: String,
    /// The values of `$1`, `$2`, … in the query, if it has parameters itself.
    pub values: Vec<String>,
}

impl Script {
    pub fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let (mut known, mut tables) = (vec![], vec![]);
        for name in ["a", "b", "c"] {
            let (table, query) = table(&mut draw, name);
            known.push(table);
            tables.push((name.to_string(), query));
        }
        let mut writer = Writer::new(draw, known);
        let (setup, query, values) = writer.statements();
        Self {
            tables,
            setup,
            query,
            values,
        }
    }

    /// All statements, which can be run anywhere: a query with parameters is prepared.
    pub fn shown(&self) -> String {
        let tables = self.tables.iter();
        let tables = tables.map(|(name, query)| format!("CREATE TABLE {name} AS {query}"));
        let statements = tables.chain(self.setup.iter().cloned());
        let query = if self.values.is_empty() {
            vec![self.query.clone()]
        } else {
            prepared(&self.query, &self.values).to_vec()
        };
        let statements: Vec<String> = statements.chain(query).collect();
        format!("{};", statements.join(";\n"))
    }
}

/// A query with parameters as a prepared statement, and its execution.
fn prepared(query: &str, values: &[String]) -> [String; 2] {
    [
        format!("PREPARE s AS {query}"),
        format!("EXECUTE s({})", values.join(", ")),
    ]
}

impl Writer {
    /// The statements before the query, the query, and the values of its parameters.
    fn statements(&mut self) -> (Vec<String>, String, Vec<String>) {
        let mut setup = vec![];
        if self.draw.chance(20) {
            let relation = self.small_relation();
            setup.push(format!("CREATE VIEW w AS {}", relation.sql));
            self.tables.push(named("w", &relation));
        }
        if self.draw.chance(20) {
            self.parameters = Some(vec![]);
        }
        let query = match self.draw.below(10) {
            0 | 1 => self.with_common(),
            2 => self.with_recursion(),
            _ => {
                let depth = self.draw.one(&[0, 1, 1, 2]);
                self.topmost(depth).sql
            }
        };
        let values = self.parameters.take().unwrap_or_default();
        if values.is_empty() || self.draw.chance(50) {
            return (setup, query, values);
        }
        let [prepare, execute] = prepared(&query, &values);
        setup.push(prepare);
        (setup, execute, vec![])
    }

    /// A query that others read: its size is bounded.
    fn small_relation(&mut self) -> Relation {
        let relation = self.relation(0);
        if relation.rows <= 40 {
            return relation;
        }
        let source = self.aliased(relation);
        self.first_rows(source, 40)
    }

    /// Now and then an aggregation of all: it is small, and no wrong row hides in it.
    fn topmost(&mut self, depth: usize) -> Relation {
        let relation = self.relation(depth);
        if self.draw.chance(75) {
            return relation;
        }
        let source = self.aliased(relation);
        let site = Site::new(&source.columns, Subqueries::Scalar);
        let aggregates = self.aggregates(site, 4);
        let (listed, columns) = self.listed(aggregates);
        Relation {
            sql: format!("SELECT {listed} FROM {}", source.sql),
            columns,
            rows: 1,
        }
    }

    /// A query of a common table expression that is likely read twice.
    fn with_common(&mut self) -> String {
        let relation = self.small_relation();
        let common = named("z", &relation);
        // Twice as likely as each table.
        self.tables.extend([common.clone(), common]);
        self.leaves += 1;
        let depth = self.draw.one(&[0, 1]);
        let below = self.topmost(depth);
        format!("WITH z AS ({}) {}", relation.sql, below.sql)
    }

    /// A query of a recursive common table expression of few steps.
    fn with_recursion(&mut self) -> String {
        let first = self.stored_table();
        let next = self.stored_table();
        let (f, n) = (&first.alias, &next.alias);
        let step = match self.draw.below(3) {
            0 => format!("y.v < {n}.id AND {n}.id < y.v + 3"),
            1 => format!("y.v + 1 = {n}.k AND {n}.lo < {n}.hi"),
            _ => format!("{n}.id = y.v + 2"),
        };
        let steps = self.draw.between(1, 3);
        let recursion = format!(
            "SELECT {f}.id AS v, CAST(0 AS BIGINT) AS n FROM {} WHERE {f}.id < 6 UNION ALL \
             SELECT {n}.id AS v, y.n + 1 AS n FROM y JOIN {} ON {step} WHERE y.n < {steps}",
            first.sql, next.sql
        );
        let table = Table {
            name: "y".into(),
            columns: vec![Column::new("v", Kind::Small), Column::new("n", Kind::Small)],
            rows: 100,
            is_stored: false,
        };
        self.tables.extend([table.clone(), table]);
        self.leaves += 2;
        let below = self.topmost(0);
        format!("WITH RECURSIVE y AS ({recursion}) {}", below.sql)
    }
}

fn named(name: &str, relation: &Relation) -> Table {
    Table {
        name: name.into(),
        columns: relation.columns.clone(),
        rows: relation.rows,
        is_stored: false,
    }
}
