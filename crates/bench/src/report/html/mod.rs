//! A study as one HTML page: charts as the published studies have them, every number, and how it was measured.
//!
//! The invariant: the page needs no other file, asks for none (its own policy forbids it), and runs no script. Names
//! that come from outside are escaped by [`maud`].

mod bars;
#[cfg(test)]
mod browser;
mod buffers;
mod curve;
#[cfg(test)]
pub(crate) mod example;
mod figures;
mod lines;
mod paint;
mod scale;
mod tables;
mod tiles;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::paint::capital;
use crate::compare::judge::{Judged, Verdict, judge};
use crate::compare::quiet::refusal;
use crate::compare::study::{Axis, Study};
use crate::compare::summary::{Line, Reading};
use crate::compare::verdict;
use crate::path::Path;
use crate::report::table::{self, Table};

/// Nothing may be fetched; the style sheet stands in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(crate) fn emit(study: &Study) -> anyhow::Result<String> {
    let reading = Reading::new(study);
    let lines = reading.lines();
    let judged = judge(&reading);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (study.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (head(&reading, &lines, &judged))
                main { (body(&reading, &lines, &judged)) }
            }
        }
    };
    Ok(page.into_string())
}

/// The verdict and the warnings before everything else.
fn head(reading: &Reading<'_>, lines: &[Line<'_>], judged: &[Judged<'_>]) -> Markup {
    let study = reading.study;
    let (warnings, sentences) = (verdict::warnings(study), verdict::summary(reading, judged));
    html! {
        header {
            @if !sentences.is_empty() {
                aside class={ "box " (tone(reading, lines, judged)) } role="note" aria-label="Verdict" {
                    @for sentence in &sentences { p.lead { (sentence) "." } }
                }
            }
            @if !warnings.is_empty() {
                aside.box.warn role="note" aria-label="Warnings" { @for warning in &warnings { p { (warning) } } }
            }
            h1 { (study.title) }
            p.quiet { (study.machine.sentence()) "; " (study.started) "; " code { (whole(&study.command)) } }
            @for note in &study.notes { p.quiet { (note) } }
            @if judged.is_empty() && refusal(study.seen()).is_none() { (tiles::draw(reading, lines)) }
        }
    }
}

/// Colour of the verdict: none was given, something is broken, something is short or slower than without, all is well.
fn tone(reading: &Reading<'_>, lines: &[Line<'_>], judged: &[Judged<'_>]) -> &'static str {
    let is_slower = |line: &Line<'_>| {
        let better = line.times_better(reading.main_metric(line.turn.group));
        line.contender.path == Path::Smc && better.is_some_and(|better| better < 1.0)
    };
    let study = reading.study;
    match refusal(study.seen()) {
        Some(_) => "warn",
        None if judged.iter().any(|row| row.verdict.is_failure()) => "bad",
        None if judged.iter().any(|row| row.verdict != Verdict::Pass) => "fair",
        // Sizes of buffers are compared with SMC itself.
        None if study.axis == Axis::Buffer => "",
        None if judged.is_empty() && lines.iter().any(is_slower) => "fair",
        None => "good",
    }
}

fn body(reading: &Reading<'_>, lines: &[Line<'_>], judged: &[Judged<'_>]) -> Markup {
    let study = reading.study;
    let all = table::tables(reading, lines, judged);
    let (goals, others): (Vec<&Table>, Vec<&Table>) = all.iter().partition(|table| table.title == "Goals");
    let refusal = refusal(study.seen()).map(|_| "no verdict: see above");
    html! {
        @for table in goals { h2 { (table.title) } (tables::draw(table)) }
        @for chapter in figures::chapters(reading, lines) {
            section {
                h2 { (chapter.heading) }
                @if let Some(name) = &chapter.name { p.quiet { (name) } }
                @if let Some(refusal) = refusal { p.quiet { (refusal) } }
                div.charts { @for figure in &chapter.figures { (figure) } }
            }
        }
        @for table in others {
            @let (heading, about) = table.title.split_once(", ").unwrap_or((&table.title, ""));
            h2 { (heading) }
            @if !about.is_empty() { p.quiet { (capital(about)) } }
            @if let Some(refusal) = refusal { p.quiet { (refusal) } }
            (tables::draw(table))
        }
        h2 { "How it was measured" }
        (method(study))
    }
}

fn method(study: &Study) -> Markup {
    html! {
        @for sentence in verdict::how(study) { p { (whole(&sentence)) "." } }
        @if !study.samples.is_empty() {
            p.quiet {
                "Transaction time is the time of a run, times its connections, through its transactions. CPU in us/Gb \
                 is user and system time of both ends in microseconds per gigabit moved; server and host tell the same \
                 of the server alone and of the whole machine, interrupts included."
            }
        }
    }
}

/// Browsers break a line within `--seconds`, behind its dashes.
fn whole(text: &str) -> Markup {
    html! {
        @for word in text.split_inclusive(' ') {
            @if word.starts_with('-') { span.word { (word.trim_end()) } @if word.ends_with(' ') { " " } } @else { (word) }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
