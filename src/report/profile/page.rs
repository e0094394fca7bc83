//! The page that shows a profile, joined of its parts in `report/page`. In: the JSON document. Out: HTML that needs no
//! other file.

const PAGE: &str = include_str!("../page/profile.html");

/// The parts by the names that [`PAGE`] calls them.
const PARTS: [(&str, &str); 9] = [
    ("profile.css", include_str!("../page/profile.css")),
    ("document.js", include_str!("../page/document.js")),
    ("header.js", include_str!("../page/header.js")),
    ("tree.js", include_str!("../page/tree.js")),
    ("panel.js", include_str!("../page/panel.js")),
    ("timeline.js", include_str!("../page/timeline.js")),
    ("timeline_view.js", include_str!("../page/timeline_view.js")),
    ("tables.js", include_str!("../page/tables.js")),
    ("theme.js", include_str!("../page/theme.js")),
];

pub(super) fn page(json: &str) -> String {
    let mut page = PAGE.to_string();
    for (name, text) in PARTS {
        page = page.replace(&format!("/* part: {name} */\n"), text);
    }
    // Within a script element only the end of one could be mistaken for HTML. The document comes last, as its text may
    // be anything.
    page.replace("PROFILE_JSON", &json.replace('<', "\\u003c"))
}
