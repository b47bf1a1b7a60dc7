//! A study as Markdown, to be pasted where people talk: the verdict first, the same tables, how it was measured.

use crate::compare::judge::judge;
use crate::compare::study::Study;
use crate::compare::summary::Reading;
use crate::compare::verdict;
use crate::report::table::{Table, tables};

/// All of it.
pub(crate) fn emit(study: &Study) -> anyhow::Result<String> {
    let reading = Reading::new(study);
    let (lines, judged) = (reading.lines(), judge(&reading));
    let mut parts = vec![format!("# {}", plain(&study.title))];
    let list = |all: Vec<String>| all.iter().map(|one| format!("- {}", plain(one))).collect::<Vec<_>>();
    parts.push(list(verdict::summary(&reading, &judged)).join("\n"));
    parts.push(list(verdict::warnings(study)).join("\n"));
    parts.push(list(study.notes.clone()).join("\n"));
    for table in tables(&reading, &lines, &judged) {
        parts.push(format!("## {}", plain(&table.title)));
        parts.push(draw(&table));
    }
    parts.extend(["## How it was measured".to_owned(), list(verdict::how(study)).join("\n")]);
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n\n") + "\n")
}

fn draw(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let marks = (0..table.header.len()).map(|column| if column < table.names { "---" } else { "---:" });
    let marks: Vec<String> = marks.map(str::to_owned).collect();
    let rows = table.rows.iter().map(|row| line(&row.cells));
    [line(&table.header), line(&marks)].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// What Markdown and HTML would take for their own stays text.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if "\\`*_[]<>|#&".contains(c) {
            plain.push('\\');
        }
        plain.push(if c == '\n' { ' ' } else { c });
    }
    plain
}
