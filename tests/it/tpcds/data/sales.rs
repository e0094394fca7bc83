//! Sales by store, catalog and web, their returns, and the inventory.

use std::collections::HashMap;

use rand::Rng;
use rand::rngs::StdRng;

use crate::tpcds::data::calendar::{DATES, civil, date_key};
use crate::tpcds::data::dimensions::foreign_key;
use crate::tpcds::data::rows::{Cell, number, or_null};
use crate::tpcds::data::schema::Table;

/// A row, by the names of its columns without the table's prefix.
type Row = HashMap<&'static str, Cell>;

/// Days that many queries look at, in days after 1970-01-01, with the days that follow: they have more sales than others.
const POPULAR: [(i64, i64); 6] = [
    // 1998-11-01, 1999-02-01, 2000-01-27, 2000-08-23, 2001-01-01 and 2001-11-01.
    (10_531, 60),
    (10_623, 60),
    (10_983, 74),
    (11_192, 100),
    (11_323, 250),
    (11_627, 60),
];

/// Items that are in the inventory.
const STOCKED: i64 = 24;

fn without_prefix(column: &'static str) -> &'static str {
    column.split_once('_').unwrap().1
}

/// The day of a sale.
fn sold_on(rng: &mut StdRng) -> i64 {
    match rng.random_bool(0.4) {
        true => {
            let (from, days) = POPULAR[rng.random_range(0..POPULAR.len())];
            from + rng.random_range(0..days)
        }
        // Not in the last year.
        false => rng.random_range(DATES.start..DATES.end - 365),
    }
}

/// Sales of about this number of rows: orders with some lines each.
pub(crate) fn sales(rng: &mut StdRng, table: &Table, rows: usize) -> Vec<Row> {
    let names: Vec<&'static str> = table
        .columns
        .iter()
        .map(|(name, _)| without_prefix(name))
        .collect();
    let (mut sales, mut order) = (vec![], 0);
    while sales.len() < rows {
        order += 1;
        let day = sold_on(rng);
        let (_, _, of_month) = civil(day);
        // Long orders come at the beginning of a month, as short ones do.
        let lines = match of_month {
            1..4 if order % 2 == 0 => rng.random_range(1..=20),
            _ => rng.random_range(1..=4),
        };
        let of_order: Row = names
            .iter()
            .map(|name| (*name, of_order(rng, name, order, day)))
            .collect();
        for _ in 0..lines {
            let mut row = of_order.clone();
            line(rng, &mut row);
            row.retain(|name, _| names.contains(name));
            sales.push(row);
        }
    }
    sales
}

/// What all lines of an order have.
fn of_order(rng: &mut StdRng, name: &'static str, order: i64, day: i64) -> Cell {
    match name {
        "order_number" | "ticket_number" => number(order),
        "sold_date_sk" => or_null(rng, 0.02, number(date_key(day))),
        "ship_date_sk" => number(date_key(day + rng.random_range(1..130))),
        name => {
            let key = foreign_key(rng, name);
            or_null(rng, 0.04, key)
        }
    }
}

/// What each line has of its own.
fn line(rng: &mut StdRng, row: &mut Row) {
    let quantity = rng.random_range(1..=100);
    let wholesale = rng.random_range(100..8_000);
    let list = wholesale + wholesale * rng.random_range(0..200) / 100;
    // Some things cost next to nothing.
    let share = [
        1,
        rng.random_range(1..=100),
        100,
        rng.random_range(60..=100),
    ][rng.random_range(0..4)];
    let price = list * share / 100;
    let coupon = match rng.random_bool(0.2) {
        true => price * quantity * rng.random_range(0..60) / 100,
        false => 0,
    };
    let paid = price * quantity - coupon;
    let (tax, ship) = (paid * rng.random_range(0..9) / 100, list * quantity / 10);
    for name in ["item_sk", "promo_sk", "warehouse_sk"] {
        row.insert(name, foreign_key(rng, name));
    }
    for (name, value) in [
        ("quantity", quantity),
        ("wholesale_cost", wholesale),
        ("list_price", list),
        ("sales_price", price),
        ("ext_discount_amt", (list - price) * quantity),
        ("ext_sales_price", price * quantity),
        ("ext_wholesale_cost", wholesale * quantity),
        ("ext_list_price", list * quantity),
        ("ext_tax", tax),
        ("coupon_amt", coupon),
        ("ext_ship_cost", ship),
        ("net_paid", paid),
        ("net_paid_inc_tax", paid + tax),
        ("net_paid_inc_ship", paid + ship),
        ("net_paid_inc_ship_tax", paid + ship + tax),
        ("net_profit", paid - wholesale * quantity),
    ] {
        row.insert(name, or_null(rng, 0.02, number(value)));
    }
}

/// Returns of one in five of the lines.
pub(crate) fn returns(rng: &mut StdRng, table: &Table, sales: &[Row]) -> Vec<Row> {
    let mut rows = vec![];
    for sale in sales {
        if rng.random_bool(0.2) {
            let names = table.columns.iter().map(|(name, _)| without_prefix(name));
            rows.push(
                names
                    .map(|name| (name, returned_cell(rng, name, sale)))
                    .collect(),
            );
        }
    }
    rows
}

fn returned_cell(rng: &mut StdRng, name: &'static str, sale: &Row) -> Cell {
    let of_sale = |name: &str| sale.get(name).cloned().unwrap_or(Cell::Null);
    let customer = name
        .trim_start_matches("refunded_")
        .trim_start_matches("returning_");
    match name {
        "returned_date_sk" => match of_sale("sold_date_sk") {
            Cell::Number(day) => number(day + rng.random_range(1..=150)),
            _ => Cell::Null,
        },
        "return_quantity" => match of_sale("quantity") {
            Cell::Number(sold) => number(rng.random_range(1..=sold)),
            _ => Cell::Null,
        },
        "reason_sk" | "returned_time_sk" | "return_time_sk" => foreign_key(rng, name),
        _ if sale.contains_key(name) => of_sale(name),
        _ if ["customer_sk", "cdemo_sk", "hdemo_sk", "addr_sk"].contains(&customer) => {
            let who = if name.starts_with("returning") {
                "ship"
            } else {
                "bill"
            };
            match sale.get(format!("{who}_{customer}").as_str()) {
                Some(who) => who.clone(),
                None => of_sale(customer),
            }
        }
        _ => {
            let amount = number(rng.random_range(0..2_000_000));
            or_null(rng, 0.02, amount)
        }
    }
}

/// What warehouses had of some items in each week.
pub(crate) fn inventory(rng: &mut StdRng) -> Vec<Row> {
    let mut rows = vec![];
    for day in DATES.step_by(7).take(210) {
        for item in 1..=STOCKED {
            for warehouse in 1..=2 {
                // Often little, now and then much.
                let quantity = (rng.random_range(0.0..1.0f64).powi(3) * 900.0) as i64;
                rows.push(HashMap::from([
                    ("date_sk", number(date_key(day))),
                    ("item_sk", number(item)),
                    ("warehouse_sk", number(warehouse)),
                    ("quantity_on_hand", or_null(rng, 0.03, number(quantity))),
                ]));
            }
        }
    }
    rows
}

/// The cells of rows, in the order of the table's columns.
pub(crate) fn in_order(table: &Table, rows: Vec<Row>) -> Vec<Vec<Cell>> {
    let cells = |mut row: Row| {
        let names = table.columns.iter().map(|(name, _)| without_prefix(name));
        names
            .map(|name| row.remove(name).unwrap_or(Cell::Null))
            .collect()
    };
    rows.into_iter().map(cells).collect()
}
