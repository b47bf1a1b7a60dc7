//! A study as text: the verdict and the warnings first, then the tables, then how it was measured.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Drawn, TableComponent, presets,
};

use crate::compare::judge::judge;
use crate::compare::quiet::refusal;
use crate::compare::study::Study;
use crate::compare::summary::Reading;
use crate::compare::verdict;
use crate::report::table::{Row, Table, tables};

/// All of it, in lines of at most `width` where tables can be cut.
pub(crate) fn text(study: &Study, width: usize) -> String {
    let reading = Reading::new(study);
    let (lines, judged) = (reading.lines(), judge(&reading));
    let mut parts = vec![];
    let verdict = verdict::summary(&reading, &judged).join("\n");
    let (refused, summed_up) = match refusal(study.seen()) {
        Some(_) => (verdict, String::new()),
        None => (String::new(), verdict),
    };
    parts.extend([refused, verdict::warnings(study).join("\n"), study.title.clone(), summed_up]);
    parts.push(study.notes.join("\n"));
    for table in tables(&reading, &lines, &judged) {
        parts.push(format!("{}\n{}", table.title, fitting(&table, width)));
    }
    parts.push(verdict::how(study).join("\n"));
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n") + "\n"
}

/// The table, or where it is too wide several with the same names and as many columns as fit; names that are too wide by
/// themselves are wrapped.
fn fitting(table: &Table, width: usize) -> String {
    let names: Vec<usize> = (0..table.names).collect();
    let is_fitting = |text: &str| text.lines().all(|line| line.chars().count() <= width);
    let (mut parts, mut begin) = (vec![], table.names);
    while begin < table.header.len() {
        let with = |end: usize| [names.clone(), (begin..end).collect()].concat();
        let fits = |end: &usize| is_fitting(&draw(&table.only(&with(*end)), None));
        let ends = || (begin + 1..=table.header.len()).rev();
        let (end, wrapped) = match ends().find(fits) {
            Some(end) => (end, None),
            // Not even one column: names are wrapped, and numbers have half of the room.
            None => {
                let numbers = |end: usize| {
                    draw(&Table { names: 0, ..table.only(&(begin..end).collect::<Vec<_>>()) }, None)
                };
                let is_half = |text: &str| text.lines().all(|line| line.chars().count() * 2 <= width);
                (ends().find(|end| is_half(&numbers(*end))).unwrap_or(begin + 1), Some(width))
            }
        };
        parts.push(draw(&table.only(&with(end)), wrapped));
        begin = end;
    }
    parts.join("\n\n")
}

fn draw(table: &Table, width: Option<usize>) -> String {
    let mut drawn = Drawn::new();
    drawn.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
    drawn.set_style(TableComponent::MiddleHeaderIntersections, '─').set_header(&table.header);
    if let Some(width) = width.and_then(|width| u16::try_from(width).ok()) {
        drawn.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for (i, row) in table.rows.iter().enumerate() {
        drawn.add_row(unsaid(row, i.checked_sub(1).map(|above| &table.rows[above]), table.names));
    }
    for column in drawn.column_iter_mut().skip(table.names) {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    drawn.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Names that were said in the row above are not said again, the last of them excepted.
fn unsaid(row: &Row, above: Option<&Row>, names: usize) -> Vec<String> {
    let mut cells = row.cells.clone();
    if let Some(above) = above {
        let same = cells
            .iter()
            .zip(&above.cells)
            .take(names.saturating_sub(1))
            .take_while(|(one, other)| one == other);
        let same = same.count();
        cells[..same].iter_mut().for_each(String::clear);
    }
    cells
}

#[cfg(test)]
mod tests;
