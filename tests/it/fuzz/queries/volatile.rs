//! Volatile values under two names: they are equal wherever the plan moves them, so counts of equal ones do not depend on them.

use crate::fuzz::queries::writer::{Kind, Relation, Site, Subqueries, Writer};

const VALUES: [&str; 6] = [
    "random()",
    "uuid()",
    "CAST(random() * 10.0 AS BIGINT)",
    "CASE WHEN random() < 0.5 THEN 1 ELSE 0 END",
    "{a} + random()",
    "array_overlap({l}, make_array(CAST(random() * 4.0 AS BIGINT), 2))",
];

impl Writer {
    /// Values of two lists above a join of them; some are volatile, and have two names.
    pub fn set_values(&mut self) -> Relation {
        let (left, right) = (self.stored_table(), self.stored_table());
        let (l, r) = (
            Site::new(&left.columns, Subqueries::None),
            Site::new(&right.columns, Subqueries::Scalar),
        );
        let kind = self.draw.one(&["JOIN", "LEFT JOIN"]);
        let on = if self.draw.chance(60) {
            self.similarity(l, r)
        } else {
            self.inequality(l, r)
        };
        let from = format!("{} {kind} {} ON {on}", left.sql, right.sql);
        let (a, b) = (&left.alias, &right.alias);
        if self.draw.chance(40) {
            let [v, w, x, y] = ["v", "w", "x", "y"].map(|prefix| self.name(prefix));
            let value =
                format!("array_overlap({a}.l, make_array(CAST(random() * 4.0 AS BIGINT), 2))");
            let inner = format!("SELECT {value} AS {v}, {a}.l AS at, {b}.l AS bt FROM {from}");
            let twice =
                format!("SELECT {v}, {v} AS {w}, array_overlap(at, bt) AS d FROM ({inner}) AS {x}");
            let same = format!("sum(CASE WHEN {v} IS NOT DISTINCT FROM {w} THEN 1 ELSE 0 END)");
            let (listed, columns) = self.listed(vec![
                ("count(*)".into(), Kind::Small),
                (same, Kind::Small),
                ("sum(d)".into(), Kind::Small),
            ]);
            return Relation {
                sql: format!("SELECT {listed} FROM ({twice}) AS {y}"),
                columns,
                rows: 1,
            };
        }
        let list = self.expression(r, Kind::List, 2);
        let (listed, columns) = self.listed(vec![
            (format!("{a}.id"), Kind::Small),
            (format!("{b}.id"), Kind::Small),
            (format!("array_overlap({a}.l, {list})"), Kind::Small),
            (format!("array_jaccard({a}.l, {b}.l)"), Kind::Mean),
        ]);
        Relation {
            sql: format!("SELECT {listed} FROM {from}"),
            columns,
            rows: left.rows * right.rows + left.rows,
        }
    }

    pub fn volatile(&mut self, depth: usize) -> Relation {
        let source = self.source(depth);
        let site = Site::new(&source.columns, Subqueries::None);
        let (a, l) = (self.leaf(site, Kind::Small), self.leaf(site, Kind::List));
        let value = self.draw.one(&VALUES).replace("{a}", &a).replace("{l}", &l);
        // Names of the key, the number of the row, and the value.
        let [key, number, x, y] = ["k", "n", "x", "y"].map(|prefix| self.name(prefix));
        let [inner, twins] = ["q", "q"].map(|prefix| self.name(prefix));
        let once = format!(
            "SELECT {a} AS {key}, row_number() OVER () AS {number}, {value} AS {x} FROM {}",
            source.sql
        );
        let twice = format!(
            "(SELECT {key}, {number}, {x}, {x} AS {y} FROM ({once}) AS {inner}) AS {twins}"
        );
        let right = self.stored_table();
        let (r, join) = (&right.alias, &right.sql);
        let kind = self.draw.one(&["JOIN", "LEFT JOIN"]);
        let operator = self.draw.one(&["=", "<", "<=", ">="]);
        let on = format!(
            "{twins}.{key} {operator} {r}.{}",
            self.draw.one(&["k", "lo", "id"])
        );
        let from = match self.draw.below(8) {
            0 => twice,
            1 | 2 => format!("{twice} {kind} {join} ON {on}"),
            3 => format!("{join} {kind} {twice} ON {on}"),
            4 | 5 => {
                let [n, p] = ["n", "q"].map(|prefix| self.name(prefix));
                format!(
                    "(SELECT {key}, {x}, {y}, row_number() OVER (PARTITION BY {number} ORDER BY {r}.lo DESC, {r}.id) AS {n} \
                     FROM {twice} {kind} {join} ON {on}) AS {p} WHERE {n} = 1"
                )
            }
            6 => {
                let p = self.name("q");
                format!(
                    "{twice} CROSS JOIN LATERAL (SELECT {r}.id FROM {join} WHERE {on} ORDER BY {r}.lo, {r}.id LIMIT 1) AS {p}"
                )
            }
            _ => {
                let p = self.name("q");
                format!(
                    "(SELECT {key}, max({x}) AS {x}, max({y}) AS {y} FROM {twice} GROUP BY {key}) AS {p}"
                )
            }
        };
        let counted = vec![
            ("count(*)".into(), Kind::Small),
            (
                format!("sum(CASE WHEN {x} IS NOT DISTINCT FROM {y} THEN 1 ELSE 0 END)"),
                Kind::Small,
            ),
        ];
        let (counted, columns) = self.listed(counted);
        if self.draw.chance(50) {
            let sql = format!("SELECT {counted} FROM {from}");
            return Relation {
                sql,
                columns,
                rows: 1,
            };
        }
        let (by, keys) = self.listed(vec![(key, Kind::Small)]);
        Relation {
            sql: format!("SELECT {by}, {counted} FROM {from} GROUP BY 1"),
            columns: [keys, columns].concat(),
            rows: source.rows,
        }
    }
}
