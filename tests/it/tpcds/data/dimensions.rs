//! The tables that sales refer to.

use rand::Rng;
use rand::rngs::StdRng;

use crate::tpcds::data::calendar::{DATES, TIME_STEP, date, date_key, time};
use crate::tpcds::data::rows::{Cell, number, one_of, or_null, text};
use crate::tpcds::data::schema::{Table, Type};
use crate::tpcds::data::words::*;

/// Rows of a dimension; `None` of a table of facts.
pub(crate) fn rows_of(table: &str) -> Option<i64> {
    Some(match table {
        "call_center" => 4,
        "catalog_page" => 20,
        "customer" => 110,
        "customer_address" => 90,
        "customer_demographics" => (GENDERS.len() * MARITAL.len() * EDUCATION.len()) as i64,
        "date_dim" => DATES.end - DATES.start,
        "household_demographics" => 120,
        "income_band" => 20,
        "item" => 60,
        "promotion" => 12,
        "reason" => 30,
        "ship_mode" => 12,
        "store" => 6,
        "time_dim" => 86_400 / TIME_STEP,
        "warehouse" | "web_site" => 4,
        "web_page" => 10,
        _ => return None,
    })
}

/// The table that a key refers to, by the end of the key's name.
fn referred(column: &str) -> Option<&'static str> {
    Some(match column.trim_end_matches("_sk").rsplit('_').next()? {
        "date" => "date_dim",
        "time" => "time_dim",
        "item" => "item",
        "customer" => "customer",
        "cdemo" => "customer_demographics",
        "hdemo" => "household_demographics",
        "addr" => "customer_address",
        "store" => "store",
        "promo" => "promotion",
        "center" => "call_center",
        "page" if column.contains("catalog") => "catalog_page",
        "page" => "web_page",
        "mode" => "ship_mode",
        "warehouse" => "warehouse",
        "site" => "web_site",
        "reason" => "reason",
        "band" => "income_band",
        _ => return None,
    })
}

/// A key of the table that `column` refers to.
pub(crate) fn foreign_key(rng: &mut StdRng, column: &str) -> Cell {
    match referred(column) {
        Some("date_dim") => number(date_key(rng.random_range(DATES))),
        Some("time_dim") => number(rng.random_range(0..86_400 / TIME_STEP) * TIME_STEP),
        Some(table) => number(rng.random_range(1..=rows_of(table).unwrap())),
        None => Cell::Null,
    }
}

/// The rows of a dimension.
pub(crate) fn dimension(rng: &mut StdRng, table: &Table, rows: i64) -> Vec<Vec<Cell>> {
    let row = |row: i64| -> Vec<Cell> {
        let kind = rng.random_range(0..KINDS.len());
        // Some items are what one query looks for.
        let kind = if row % 10 == 0 { 3 } else { kind };
        let columns = table.columns.iter().enumerate();
        columns
            .map(|(at, (column, data_type))| match table.name {
                "date_dim" => date(column, DATES.start + row - 1),
                "time_dim" => time(column, (row - 1) * TIME_STEP),
                _ if at == 0 => number(row),
                _ if at == 1 && column.ends_with("_id") => text(&format!("AAAAAAAA{row:08}")),
                _ => cell(rng, table.name, column, *data_type, row, kind),
            })
            .collect()
    };
    (1..=rows).map(row).collect()
}

fn cell(
    rng: &mut StdRng,
    table: &str,
    column: &str,
    data_type: Type,
    row: i64,
    kind: usize,
) -> Cell {
    match table {
        "customer_demographics" => demographics(column, row),
        "household_demographics" => household(column, row),
        "income_band" => number(match column {
            "ib_lower_bound" => (row - 1) * 10_000 + i64::from(row > 1),
            _ => row * 10_000,
        }),
        "item" => item(rng, column, row, kind),
        "customer" => customer(rng, column),
        "reason" => text(&format!("reason {row}")),
        "promotion" if column.contains("channel") => one_of(rng, &["N", "N", "Y"]),
        _ => place(rng, column, row),
    }
    .or(|| other(rng, column, data_type))
}

impl Cell {
    fn or(self, other: impl FnOnce() -> Cell) -> Cell {
        match self {
            Cell::Null => other(),
            cell => cell,
        }
    }
}

/// All combinations.
fn demographics(column: &str, row: i64) -> Cell {
    let at = row as usize - 1;
    match column {
        "cd_gender" => text(GENDERS[at % 2]),
        "cd_marital_status" => text(MARITAL[at / 2 % MARITAL.len()]),
        "cd_education_status" => text(EDUCATION[at / 2 / MARITAL.len()]),
        "cd_credit_rating" => text(CREDIT[at % CREDIT.len()]),
        "cd_purchase_estimate" => number(row % 8 * 500),
        _ => number(row * 7 % 5),
    }
}

fn household(column: &str, row: i64) -> Cell {
    match column {
        "hd_income_band_sk" => number(row % 20 + 1),
        "hd_buy_potential" => text(POTENTIAL[row as usize % POTENTIAL.len()]),
        "hd_dep_count" => number(row / 5 % 8),
        _ => number(row / 3 % 6 - 1),
    }
}

fn item(rng: &mut StdRng, column: &str, row: i64, kind: usize) -> Cell {
    let (category, classes, brands) = KINDS[kind];
    let wanted = row % 10 == 0;
    let manufacturer = match wanted {
        true => 738,
        false => MANUFACTURERS[row as usize % MANUFACTURERS.len()],
    };
    match column {
        "i_item_desc" => or_null(
            rng,
            0.02,
            text(&format!(
                "An item of class {} with the number {row}",
                classes[0]
            )),
        ),
        "i_current_price" => number(match row % 5 {
            0 => rng.random_range(99..150),
            1 => rng.random_range(6_500..7_400),
            2 => rng.random_range(6_800..9_200),
            _ => rng.random_range(100..9_000),
        }),
        "i_brand" => one_of(rng, brands),
        "i_brand_id" => number(kind as i64 * 1_000 + row % 2),
        "i_class" => one_of(rng, classes),
        "i_class_id" => number(row % 3 + 1),
        "i_category" => text(category),
        "i_category_id" => number(kind as i64 + 1),
        "i_manufact_id" => number(manufacturer),
        "i_manufact" => text(&format!("maker {manufacturer}")),
        "i_size" if wanted => text("medium"),
        "i_size" => one_of(rng, &SIZES),
        "i_color" if wanted => text("powder"),
        "i_color" => text(COLORS[row as usize % COLORS.len()]),
        "i_units" if wanted => text("Ounce"),
        "i_units" => one_of(rng, &UNITS),
        "i_manager_id" => number(MANAGERS[rng.random_range(0..MANAGERS.len())]),
        "i_product_name" => text(&format!("product {row}")),
        _ => Cell::Null,
    }
}

fn customer(rng: &mut StdRng, column: &str) -> Cell {
    match column {
        "c_first_name" => one_of(rng, &FIRST_NAMES),
        "c_last_name" => one_of(rng, &LAST_NAMES),
        "c_salutation" => one_of(rng, &["Dr.", "Ms.", "Mr."]),
        "c_preferred_cust_flag" => one_of(rng, &["Y", "Y", "N"]),
        "c_birth_day" => number(rng.random_range(1..=28)),
        "c_birth_month" => number(rng.random_range(1..=12)),
        "c_birth_year" => number(rng.random_range(1930..1990)),
        "c_birth_country" => one_of(rng, &["CANADA", "UNITED STATES", "PERU"]),
        _ => Cell::Null,
    }
}

/// What stores, warehouses, sites and addresses have.
fn place(rng: &mut StdRng, column: &str, row: i64) -> Cell {
    let is_address = column.starts_with("ca_");
    match column.split_once('_').unwrap().1 {
        "county" if is_address => one_of(rng, &COUNTIES),
        "county" => text(COUNTIES[0]),
        "state" if is_address => one_of(rng, &STATES),
        "state" => text("TN"),
        "city" => one_of(rng, &CITIES[..if is_address { 5 } else { 2 }]),
        "zip" => text(ZIPS[row as usize % if is_address { ZIPS.len() } else { 2 }]),
        "country" => text("United States"),
        "gmt_offset" if is_address => number([-500, -500, -500, -700][rng.random_range(0..4)]),
        "gmt_offset" => number(-500),
        "store_name" => text(STORE_NAMES[row as usize % STORE_NAMES.len()]),
        "company_name" if column.starts_with("web") => one_of(rng, &["pri", "able"]),
        "market_id" => number(row % 3 + 7),
        "number_employees" => number(rng.random_range(190..300)),
        "carrier" => text(CARRIERS[row as usize % CARRIERS.len()]),
        "type" if column.starts_with("sm_") => text(SHIPPING[row as usize % SHIPPING.len()]),
        "char_count" => number(rng.random_range(4_900..5_300)),
        "warehouse_sq_ft" => number(rng.random_range(100_000..900_000)),
        _ => Cell::Null,
    }
}

/// A value of the type, now and then NULL.
fn other(rng: &mut StdRng, column: &str, data_type: Type) -> Cell {
    let cell = match data_type {
        Type::Int if column.ends_with("_sk") => foreign_key(rng, column),
        Type::Int => number(rng.random_range(1..10)),
        Type::Text => text(&format!("{column} {}", rng.random_range(0..8))),
        Type::Date => number(rng.random_range(DATES)),
        Type::Decimal(..) => number(rng.random_range(0..1_000)),
    };
    or_null(rng, 0.03, cell)
}
