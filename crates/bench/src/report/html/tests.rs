//! The page as a parser sees it.

use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document, tokenizer::TokenizerOpts};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

use super::{emit, example};
use crate::cell::Cell;
use crate::compare::mock::{MockExecutor, plan, run, study};
use crate::path::Path;
use crate::report::agreement::every;

/// An element with its attributes and the text right in it.
pub(crate) struct Element {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// All elements in their order. A page that a parser has to mend fails the test.
pub(crate) fn elements(page: &str) -> Vec<Element> {
    let tokenizer = TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() };
    let options = ParseOpts { tokenizer, ..ParseOpts::default() };
    let dom = parse_document(RcDom::default(), options).one(page);
    assert_eq!(dom.errors.borrow().as_slice(), &[] as &[std::borrow::Cow<'_, str>]);
    let mut all = vec![];
    collect(&dom.document, &mut all);
    all
}

fn collect(node: &Handle, all: &mut Vec<Element>) {
    let children = node.children.borrow();
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let text = children.iter().filter_map(|child| match &child.data {
            NodeData::Text { contents } => Some(contents.borrow().to_string()),
            _ => None,
        });
        let attributes = attrs.borrow();
        let attributes = attributes.iter().map(|one| (one.name.local.to_string(), one.value.to_string()));
        let (name, attributes) = (name.local.to_string(), attributes.collect());
        all.push(Element { name, attributes, text: text.collect() });
    }
    children.iter().for_each(|child| collect(child, all));
}

#[test]
fn every_page_is_well_formed_and_asks_for_nothing() {
    for study in every() {
        let page = emit(&study).expect("a page");
        for element in elements(&page) {
            let name = element.name.as_str();
            assert!(!["script", "link", "img", "iframe"].contains(&name), "{name}");
            for (name, value) in &element.attributes {
                assert!(!["src", "href", "style"].contains(&name.as_str()), "{name}={value}");
                assert!(!name.starts_with("on"), "{name}={value}");
            }
        }
        assert!(!page.contains("url(") && !page.contains("@import"));
    }
}

#[test]
fn every_mark_has_room_beside_its_axis_and_every_chapter_a_heading() {
    for study in every() {
        let page = elements(&emit(&study).expect("a page"));
        assert!(page.iter().all(|one| one.name != "h2" || !one.text.is_empty()), "{}", study.title);
        for mark in page.iter().filter(|one| one.attribute("text-anchor") == Some("end")) {
            // A digit of 10 pixels is 5.6 wide at most, a blank 3.2.
            let width: f64 = mark.text.chars().map(|c| if c == '\u{a0}' { 3.2 } else { 5.6 }).sum();
            let right = mark.attribute("x").and_then(|x| x.parse().ok()).unwrap_or(0.0);
            let is_tick = mark.attribute("class") == Some("tick");
            assert!(!is_tick || width <= right, "{}: {}", study.title, mark.text);
        }
        // Names at the ends of lines stand above the marks of the lower axis.
        let number = |one: &Element, name| one.attribute(name).and_then(|at| at.parse::<f64>().ok());
        let of_lines = page.iter().filter(|one| one.name == "text" && number(one, "x") == Some(261.0));
        assert!(of_lines.clone().all(|one| number(one, "y") < Some(200.0)), "{}", study.title);
    }
}

/// With the heading of its chapter: what is taller is cut, or leaves an empty frame behind.
#[test]
fn every_drawing_has_room_on_a_printed_page() {
    let print = include_str!("style.css").split("@media print").nth(1).expect("a style for paper");
    let mm: f64 = print
        .split(&['{', ' ', ';'][..])
        .filter_map(|word| word.strip_suffix("mm")?.parse::<f64>().ok())
        .sum();
    for study in every() {
        let page = elements(&emit(&study).expect("a page"));
        let shapes = page.iter().filter_map(|one| one.attribute("viewBox")?.strip_prefix("0 0 340 "));
        let mut tall = shapes.map(|height| height.parse::<f64>().expect("a number") * mm / 340.0);
        assert!(tall.all(|tall| (1.0..150.0).contains(&tall)), "{}", study.title);
    }
}

#[test]
fn warnings_come_before_everything_else() {
    let page = elements(&emit(&example::troubled()).expect("a page"));
    let text: Vec<&Element> = page.iter().skip_while(|one| one.name != "body").collect();
    let names: Vec<&str> = text.iter().take(6).map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["body", "header", "aside", "p", "aside", "p"]);
    assert_eq!(text[2].attribute("class"), Some("box warn"), "it has a colour");
    assert!(text[3].text.starts_with("no verdict: "), "{}", text[3].text);
    assert!(text[5].text.contains("smc connections stayed on TCP"), "{}", text[5].text);
    assert!(!text.iter().any(|one| one.attribute("class") == Some("tiles")), "no verdict, no tiles");
}

#[test]
fn a_verdict_is_green_where_smc_is_slower_nowhere() {
    for (rate, class) in [(2e4, "box good"), (0.5e4, "box fair")] {
        let model = move |cell: &Cell, _| run(if cell.path == Path::Smc { rate } else { 1e4 }, 10.0);
        let plan = plan(&["rr"], &[1], &[Path::TcpVeth, Path::Smc]);
        let page = elements(&emit(&study(plan, &mut MockExecutor::new(model))).expect("a page"));
        let verdict = page.iter().find(|one| one.name == "aside").expect("a verdict");
        assert_eq!(verdict.attribute("class"), Some(class));
    }
}

#[test]
fn names_from_outside_stay_text() {
    let page = elements(&emit(&example::troubled()).expect("a page"));
    let title = page.iter().find(|one| one.name == "h1").expect("a heading");
    assert_eq!(title.text, "<script>alert(1)</script> & more");
}

#[test]
fn a_study_of_nothing_is_a_page() {
    let mut executor = MockExecutor::default();
    executor.fail("rr 1 smc", "no sockets");
    let page = emit(&study(plan(&["rr"], &[1], &[Path::Smc]), &mut executor)).expect("a page");
    assert!(elements(&page).iter().all(|one| one.name != "svg" && one.name != "table"));
}

#[test]
fn without_a_baseline_there_are_no_bars_but_numbers() {
    let mut executor = MockExecutor::default();
    executor.fail("rr 1 tcp-veth", "no bridge");
    let study = study(plan(&["rr"], &[1], &[Path::TcpVeth, Path::Smc]), &mut executor);
    let page = elements(&emit(&study).expect("a page"));
    assert!(page.iter().all(|one| one.name != "rect"), "a ratio to nothing");
    assert!(page.iter().any(|one| one.name == "polyline") && page.iter().any(|one| one.name == "table"));
}
