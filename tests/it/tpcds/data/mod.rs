//! The 24 tables of TPC-DS, small ones: their keys join, and they hold the values that the queries look for, so that most queries find
//! rows. They are no data of TPC-DS's own generator. The same in each run.

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::tpcds::data::rows::Cell;
use crate::tpcds::data::schema::{Table, tables};

mod calendar;
mod dimensions;
pub(crate) mod rows;
mod sales;
pub(crate) mod schema;
mod words;

/// Each table with its rows.
pub(crate) fn generate() -> Vec<(Table, Vec<Vec<Cell>>)> {
    let rng = &mut StdRng::seed_from_u64(99);
    let tables = tables();
    let of = |name: &str| tables.iter().find(|table| table.name == name).unwrap();
    let mut facts = vec![("inventory", sales::inventory(rng))];
    for (sold, returned, rows) in [
        ("store_sales", "store_returns", 10_000),
        ("catalog_sales", "catalog_returns", 7_000),
        ("web_sales", "web_returns", 5_000),
    ] {
        let sales = sales::sales(rng, of(sold), rows);
        facts.push((returned, sales::returns(rng, of(returned), &sales)));
        facts.push((sold, sales));
    }
    let mut rows = |table: &Table| match dimensions::rows_of(table.name) {
        Some(rows) => dimensions::dimension(rng, table, rows),
        None => {
            let at = facts.iter().position(|(name, _)| *name == table.name);
            sales::in_order(table, facts.swap_remove(at.unwrap()).1)
        }
    };
    let rows: Vec<_> = tables.iter().map(&mut rows).collect();
    tables.into_iter().zip(rows).collect()
}
