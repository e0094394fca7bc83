//! `date_dim` and `time_dim`.

use crate::tpcds::data::rows::{Cell, number, text};
use crate::tpcds::data::words::DAYS;

/// The key of a date is its Julian day; of this one, 1970-01-01.
const EPOCH: i64 = 2_440_588;

/// Days of 1998 to 2003, counted from 1970.
pub(crate) const DATES: std::ops::Range<i64> = 10_227..12_418;

/// Seconds between two times of `time_dim`.
pub(crate) const TIME_STEP: i64 = 300;

/// The key of a date.
pub(crate) fn date_key(days: i64) -> i64 {
    EPOCH + days
}

/// Year, month and day of month.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let (mut year, mut rest) = (1970, days);
    let length = |year: i64| {
        if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) {
            366
        } else {
            365
        }
    };
    while rest >= length(year) {
        rest -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < days {
            break;
        }
        rest -= days;
        month += 1;
    }
    (year, month, rest + 1)
}

/// A column of the date that is `days` days after 1970-01-01.
pub(crate) fn date(column: &str, days: i64) -> Cell {
    let (year, month, day) = civil(days);
    // 1970-01-01 was a Thursday.
    let weekday = (days + 4) % 7;
    let quarter = (month + 2) / 3;
    let months = (year - 1900) * 12 + month - 1;
    let flag = |holds: bool| text(if holds { "Y" } else { "N" });
    match column {
        "d_date_sk" => number(date_key(days)),
        "d_date_id" => text(&format!("AAAAAAAA{days:08}")),
        "d_date" => number(days),
        "d_month_seq" => number(months),
        "d_week_seq" | "d_fy_week_seq" => number((days + 4) / 7 + 3_653),
        "d_quarter_seq" | "d_fy_quarter_seq" => number((year - 1900) * 4 + quarter),
        "d_year" | "d_fy_year" => number(year),
        "d_dow" => number(weekday),
        "d_moy" => number(month),
        "d_dom" => number(day),
        "d_qoy" => number(quarter),
        "d_day_name" => text(DAYS[weekday as usize]),
        "d_quarter_name" => text(&format!("{year}Q{quarter}")),
        "d_holiday" => flag((month, day) == (12, 25)),
        "d_following_holiday" => flag((month, day) == (12, 26)),
        "d_weekend" => flag([0, 6].contains(&weekday)),
        "d_first_dom" => number(date_key(days - day + 1)),
        "d_last_dom" => number(date_key(days - day + 31)),
        "d_same_day_ly" => number(date_key(days - 365)),
        "d_same_day_lq" => number(date_key(days - 91)),
        _ => text("N"),
    }
}

/// A column of a time, in seconds of the day.
pub(crate) fn time(column: &str, seconds: i64) -> Cell {
    let hour = seconds / 3600;
    let meal = match hour {
        6..9 => "breakfast",
        11..14 => "lunch",
        17..21 => "dinner",
        _ => return time_without_meal(column, seconds),
    };
    match column {
        "t_meal_time" => text(meal),
        column => time_without_meal(column, seconds),
    }
}

fn time_without_meal(column: &str, seconds: i64) -> Cell {
    let hour = seconds / 3600;
    match column {
        "t_time_sk" | "t_time" => number(seconds),
        "t_time_id" => text(&format!("AAAAAAAA{seconds:08}")),
        "t_hour" => number(hour),
        "t_minute" => number(seconds / 60 % 60),
        "t_second" => number(seconds % 60),
        "t_am_pm" => text(if hour < 12 { "AM" } else { "PM" }),
        "t_shift" => text(["third", "first", "second"][hour as usize / 8]),
        "t_sub_shift" => text(["night", "morning", "afternoon", "evening"][hour as usize / 6]),
        _ => Cell::Null,
    }
}
