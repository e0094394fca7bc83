//! Clones of the data sets of [B], with their published cardinality, mean set size and universe, and no other property
//! of them. The thesis does not state more, so sizes have a geometric distribution, frequencies follow Zipf's
//! distribution with exponent 0.8, and a fiftieth of the sets is planted. Equal sets occur by chance. Sets of AOL and
//! of the synthetic data sets have at least two elements, as most of millions of one-element sets would be equal; the
//! equal one-element sets of the real data are missing.

use datafusion_bowtie::rates::SetCase;

/// A data set of [B].
#[derive(Clone, Debug)]
pub struct DataSet {
    pub name: String,
    /// The table of [B] that describes it.
    pub table: &'static str,
    /// Whether it is a part, an inflation or an extension of another data set of the list. Such variants are measured
    /// whole or not at all.
    pub variant: bool,
    pub sets: usize,
    least: usize,
    pub mean: f64,
    pub universe: usize,
}

impl DataSet {
    /// The first `sets` sets.
    pub fn case(&self, sets: usize) -> SetCase {
        SetCase {
            sets,
            least: self.least,
            mean: self.mean,
            universe: self.universe,
            zipf: 0.8,
        }
    }

    /// The number of elements of all sets together.
    pub fn elements(&self) -> f64 {
        self.sets as f64 * self.mean
    }
}

/// The data sets of the similarity joins of [B] chapter 5: tables 5.2, 5.4 (inflated) and 5.6 (synthetic).
pub fn similar() -> Vec<DataSet> {
    let of = |table, variant, least| {
        move |(name, sets, mean, universe): (&str, usize, f64, usize)| DataSet {
            name: name.to_string(),
            table,
            variant,
            sets,
            least,
            mean,
            universe,
        }
    };
    let real = [
        ("BMS-POS", 510_000, 6.5, 1_657),
        ("DBLP-100K", 100_000, 88.0, 7_205),
        ("ENRON", 250_000, 135.0, 1_100_000),
        ("KOSARAK", 1_000_000, 8.0, 41_000),
        ("LIVEJOURNAL", 3_100_000, 36.5, 7_500_000),
        ("ORKUT", 2_700_000, 120.0, 8_700_000),
        ("TWITTER", 1_600_000, 75.0, 37_000),
    ];
    let parts = [
        ("DBLP-200K", 200_000, 88.0, 8_817),
        ("DBLP-300K", 300_000, 88.0, 10_000),
        ("DBLP-1M", 1_000_000, 88.0, 15_000),
        ("DBLP", 6_100_000, 88.0, 27_000),
    ];
    let inflated = [
        ("BMS-25", 13_000_000, 6.5, 1_681),
        ("ENRON-25", 6_100_000, 135.0, 1_100_000),
        ("LIVEJOURNAL-5", 15_000_000, 36.5, 7_500_000),
    ];
    let aol = ("AOL", 10_000_000, 3.0, 3_900_000);
    let mut all = vec![of("5.2", false, 2)(aol)];
    all.extend(real.map(of("5.2", false, 1)));
    all.extend(parts.map(of("5.2", true, 1)));
    all.extend(inflated.map(of("5.4", true, 1)));
    for millions in [5, 10, 20] {
        for universe in [50, 500] {
            for mean in [5, 25] {
                let name = format!("{millions}M-{universe}K-{mean}");
                let synthetic = of("5.6", millions > 5, 2);
                let sets = millions * 1_000_000;
                all.push(synthetic((&name, sets, f64::from(mean), universe * 1_000)));
            }
        }
    }
    all
}

/// The data sets of the intersections of [B] chapter 6, table 6.1: the largest sets of a data set, the means of 10,000,
/// 50,000 and 100,000 of them, and the universe.
const LARGEST: [(&str, [f64; 3], usize); 5] = [
    ("BMS", [35.0, 22.0, 17.0], 1_600),
    ("ENRON", [794.0, 374.0, 258.0], 1_100_000),
    ("ORKUT", [1_001.0, 984.0, 905.0], 8_700_000),
    ("TWITTER", [150.0, 142.0, 140.0], 37_000),
    ("WORDS", [3_494.0, 2_396.0, 2_021.0], 11_000),
];

/// The data sets of the containment joins of [B] chapter 6, each size as a data set of its own.
pub fn largest() -> Vec<(&'static str, Vec<DataSet>)> {
    largest_of(&[10_000, 50_000, 100_000])
}

/// The `sizes` largest sets of each data set, which ascend from 10,000 on. Between the sizes of table 6.1 the mean falls with
/// the logarithm of the size.
pub fn largest_of(sizes: &[usize]) -> Vec<(&'static str, Vec<DataSet>)> {
    LARGEST
        .map(|(name, means, universe)| {
            // The largest of geometric sizes have a geometric distribution above a least size. The mean excess is the
            // decrease of the means with ln k.
            let excess = [
                (means[0] - means[1]) / 5f64.ln(),
                (means[1] - means[2]) / 2f64.ln(),
            ];
            let of_size = |(i, &sets): (usize, &usize)| {
                let (after, mean, excess) = match sets {
                    100_000.. => (100_000, means[2], excess[1]),
                    50_000.. => (50_000, means[1], excess[1]),
                    _ => (10_000, means[0], excess[0]),
                };
                let mean = mean - excess * (sets as f64 / f64::from(after)).ln();
                DataSet {
                    name: format!("{name}-{}K", sets / 1_000),
                    table: "6.1",
                    variant: i > 0,
                    sets,
                    least: (mean - excess).max(1.0) as usize,
                    mean,
                    universe,
                }
            };
            (name, sizes.iter().enumerate().map(of_size).collect())
        })
        .to_vec()
}

/// The clone with this name.
///
/// # Panics
/// If [`similar`] has none.
pub fn named(name: &str) -> DataSet {
    let mut all = similar().into_iter();
    all.find(|data_set| data_set.name == name)
        .unwrap_or_else(|| panic!("no data set {name}"))
}
