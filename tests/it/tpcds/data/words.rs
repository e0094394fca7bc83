//! Values that the queries look for, among others. Those that are listed more than once are drawn more often.

pub(crate) const STATES: [&str; 24] = [
    "GA", "GA", "GA", "TN", "TN", "TN", "TN", "KY", "NM", "TX", "OH", "OR", "VA", "MS", "CA", "IL",
    "IL", "IN", "WI", "CO", "MN", "IA", "LA", "WA",
];
pub(crate) const COUNTIES: [&str; 6] = [
    "Williamson County",
    "Williamson County",
    "Rush County",
    "Jefferson County",
    "Bronx County",
    "Dona Ana County",
];
pub(crate) const CITIES: [&str; 5] = ["Fairview", "Midway", "Edgewood", "Oak Grove", "Five Points"];
pub(crate) const ZIPS: [&str; 5] = ["24128", "35576", "85669", "76232", "31904"];
pub(crate) const STORE_NAMES: [&str; 4] = ["ese", "ese", "able", "ought"];
pub(crate) const CARRIERS: [&str; 4] = ["DHL", "BARIAN", "UPS", "FEDEX"];
pub(crate) const SHIPPING: [&str; 4] = ["EXPRESS", "OVERNIGHT", "REGULAR", "TWO DAY"];
pub(crate) const GENDERS: [&str; 2] = ["M", "F"];
pub(crate) const MARITAL: [&str; 5] = ["M", "S", "D", "W", "U"];
pub(crate) const EDUCATION: [&str; 6] = [
    "College",
    "2 yr Degree",
    "4 yr Degree",
    "Advanced Degree",
    "Unknown",
    "Primary",
];
pub(crate) const CREDIT: [&str; 4] = ["Low Risk", "Good", "High Risk", "Unknown"];
pub(crate) const POTENTIAL: [&str; 5] = ["Unknown", ">10000", "0-500", "501-1000", "1001-5000"];
pub(crate) const MANUFACTURERS: [i64; 16] = [
    128, 977, 350, 677, 940, 694, 808, 129, 270, 821, 423, 738, 745, 760, 778, 128,
];
pub(crate) const MANAGERS: [i64; 5] = [1, 8, 28, 1, 40];
pub(crate) const UNITS: [&str; 6] = ["Ounce", "Bunch", "Dozen", "Box", "Pallet", "Each"];
pub(crate) const SIZES: [&str; 5] = ["medium", "extra large", "N/A", "small", "petite"];
pub(crate) const COLORS: [&str; 12] = [
    "powder",
    "brown",
    "floral",
    "light",
    "peach",
    "slate",
    "blanched",
    "purple",
    "burlywood",
    "indian",
    "spring",
    "medium",
];
pub(crate) const FIRST_NAMES: [&str; 6] = ["Ada", "Alan", "Edgar", "Grace", "Barbara", "Jim"];
pub(crate) const LAST_NAMES: [&str; 6] = ["Lovelace", "Turing", "Codd", "Hopper", "Liskov", "Gray"];
pub(crate) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Categories of items, with classes and brands that are asked for together.
pub(crate) const KINDS: [(&str, &[&str], &[&str]); 10] = [
    (
        "Books",
        &["computers", "reference", "self-help"],
        &["scholaramalgamalg #14", "scholaramalgamalg #7"],
    ),
    (
        "Children",
        &["personal", "school-uniforms"],
        &["scholaramalgamalg #9", "exportiunivamalg #9"],
    ),
    (
        "Electronics",
        &["portable", "stereo"],
        &["scholaramalgamalg #14", "exportiunivamalg #9"],
    ),
    (
        "Women",
        &["maternity", "fragrances", "dresses"],
        &["amalgimporto #1", "edu packscholar #1"],
    ),
    (
        "Men",
        &["pants", "shirts", "accessories"],
        &["importoamalg #1", "edu packscholar #1"],
    ),
    (
        "Music",
        &["classical", "pop"],
        &["exportiimporto #1", "edu packscholar #1"],
    ),
    ("Jewelry", &["birdal", "rings"], &["amalgcorp #3"]),
    ("Sports", &["football", "golf"], &["corpmaxi #5"]),
    ("Home", &["rugs", "lighting"], &["univnameless #2"]),
    ("Shoes", &["athletic", "mens"], &["brandbrand #4"]),
];
