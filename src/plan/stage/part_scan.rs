//! The scan of a task, which has some of a table's files, or parts of them, but the statistics of the whole table.

use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

type Plan = Arc<dyn ExecutionPlan>;

/// `scan` with the statistics of what it reads, approximately, if its files have statistics of their own.
pub(crate) fn with_own_statistics(scan: &Plan) -> Plan {
    of_files(scan).unwrap_or_else(|| Arc::clone(scan))
}

fn of_files(scan: &Plan) -> Option<Plan> {
    let source = scan.downcast_ref::<DataSourceExec>()?.data_source();
    let config = source.downcast_ref::<FileScanConfig>()?;
    let rows: Option<f64> = config
        .file_groups
        .iter()
        .flat_map(FileGroup::iter)
        .map(rows_of)
        .sum();
    let table = config.statistics();
    let share = rows? / *table.num_rows.get_value()? as f64;
    // All of the table, up to what is lost where files are divided.
    if !(0.0..0.999).contains(&share) {
        return None;
    }
    let own = FileScanConfigBuilder::from(config.clone())
        .with_statistics(scaled(&table, share))
        .build();
    Some(DataSourceExec::from_data_source(own))
}

/// The rows of the part of a file that is read.
fn rows_of(file: &PartitionedFile) -> Option<f64> {
    let rows = *file.statistics.as_ref()?.num_rows.get_value()? as f64;
    let size = file.object_meta.size.max(1) as f64;
    Some(rows * file.effective_size() as f64 / size)
}

/// Statistics of a share of the rows.
fn scaled(table: &Statistics, share: f64) -> Statistics {
    let scale = |known: &Precision<usize>| {
        let known = known.get_value();
        known.map_or(Precision::Absent, |known| {
            Precision::Inexact((*known as f64 * share).round() as usize)
        })
    };
    let mut part = table.clone().to_inexact();
    part.num_rows = scale(&part.num_rows);
    part.total_byte_size = scale(&part.total_byte_size);
    for column in &mut part.column_statistics {
        column.null_count = scale(&column.null_count);
        column.byte_size = scale(&column.byte_size);
    }
    part
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

    use super::*;
    use crate::plan::statistics::statistics_cache::StatisticsCache;

    /// The rows that a scan says it has, if it reads `share` of the bytes of its only file.
    async fn rows(statistics: bool, share: i64) -> Precision<usize> {
        let config = SessionConfig::new()
            .with_target_partitions(1)
            .with_collect_statistics(statistics);
        let ctx = SessionContext::new_with_config(config);
        let name = format!("bowtie-{}-{share}-{statistics}.parquet", std::process::id());
        let path = std::env::temp_dir().join(name);
        let path = path.to_str().unwrap();
        let copy = format!("COPY (SELECT value FROM range(0, 1000)) TO '{path}'");
        ctx.sql(&copy).await.unwrap().collect().await.unwrap();
        let frame = ctx.read_parquet(path, ParquetReadOptions::default()).await;
        let plan = frame.unwrap().create_physical_plan().await.unwrap();
        std::fs::remove_file(path).unwrap();
        let source = plan.downcast_ref::<DataSourceExec>().unwrap().data_source();
        let config = source.downcast_ref::<FileScanConfig>().unwrap();
        let mut file = config.file_groups[0].files()[0].clone();
        let size = i64::try_from(file.object_meta.size).unwrap();
        file = file.with_range(0, size * share / 100);
        let part = FileScanConfigBuilder::from(config.clone())
            .with_file_groups(vec![FileGroup::new(vec![file])])
            .build();
        let part: Plan = DataSourceExec::from_data_source(part);
        let part = with_own_statistics(&part);
        StatisticsCache::default().rows(&part).0
    }

    #[tokio::test]
    async fn a_part_of_a_file_has_a_part_of_its_rows() {
        let Precision::Inexact(half) = rows(true, 50).await else {
            panic!("a share is not exact");
        };
        assert!((450..=550).contains(&half), "{half}");
        assert_eq!(rows(true, 100).await.get_value(), Some(&1000));
        assert_eq!(rows(false, 50).await, Precision::Absent);
    }
}
