//! The tables of the page: those of every report, with signs for verdicts and colours for rows.

use maud::{Markup, html};

use crate::report::table::{Row, Table};

/// A table that scrolls by itself where it does not fit, which its shadows show. All names of a row are one cell that stays.
pub(crate) fn draw(table: &Table) -> Markup {
    html! {
        p.hint { "Scroll sideways for more columns." }
        div.scroll role="region" aria-label=(table.title) tabindex="0" {
            table class=[(table.names > 1).then_some(if table.title == "Goals" { "goals" } else { "named" })] {
                thead {
                    tr {
                        th.words scope="col" { (heading(table)) }
                        @for name in &table.header[table.names..] { th scope="col" { (name) } }
                    }
                }
                tbody { @for row in &table.rows { (draw_row(row, table.names)) } }
            }
        }
    }
}

/// As the cells below say it.
fn heading(table: &Table) -> String {
    let (what, who) = table.header[..table.names].split_at(table.names - 1);
    if table.title == "Goals" {
        table.header[..table.names].join(", ")
    } else {
        [who, what].concat().join(", ")
    }
}

/// The last name is who, the ones before it are what; a verdict has its sign.
fn draw_row(row: &Row, names: usize) -> Markup {
    let sign = match row.class {
        "pass" => "✓ ",
        "short" => "△ ",
        "floor" => "✗ ",
        "quiet" => "– ",
        _ => "",
    };
    let (what, who) = row.cells[..names].split_at(names - 1);
    let what: Vec<&str> = what.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    html! {
        tr class=(row.class) {
            th.words scope="row" {
                @if sign.is_empty() { b { @for part in who[0].split_inclusive('=') { (part) wbr; } } " " span { (what.join(", ")) } }
                @else { span.what { (what.join(", against ")) } " " b.verdict { (sign) (who[0]) } }
            }
            @for cell in &row.cells[names..] { td { (cell) } }
        }
    }
}
