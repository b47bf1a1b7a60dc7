//! From tags to a profile. As in uperf, what counts is which group and which transaction began last, so a text that closes
//! nothing does no harm; one that closes something has to close everything, each in its turn. What is missing beside a mistake is made up, so that one mistake is one error.

use std::num::NonZeroU32;
use std::time::Duration;

use super::element::Element;
use super::numbers::{number, time};
use super::reader::{Reader, Values};
use super::source::Span;
use super::tags::Tag;
use crate::profile::errors::Errors;
use crate::profile::model::{Flowop, FlowopKind, Group, Place, Profile, StrandKind, Transaction, Until};
use crate::profile::suggest::suggest;

/// uperf's own limit.
const MOST_GROUPS: usize = 1024;
/// Each strand has a connection, and one address has no more ports.
const MOST_STRANDS: u32 = 65_535;

/// Takes tags in the order of the text.
pub(super) struct Builder<'a, 's> {
    pub(super) reader: Reader<'a, 's>,
    profile: Profile,
    /// The group that began last, unless it has ended, and where.
    group: Option<(Place, Group)>,
    /// The transaction that began last, unless it has ended, and where.
    transaction: Option<(Place, Transaction)>,
    /// What is open, and where it began.
    open: Vec<(Element, Place)>,
    /// Whether anything was ever closed.
    closes: bool,
    /// The first of them that does not fit the others.
    unbalanced: Option<(Place, String)>,
}

impl<'a, 's> Builder<'a, 's> {
    /// Nothing read yet.
    pub(super) fn new(reader: Reader<'a, 's>) -> Self {
        let profile = Profile { name: String::new(), groups: Vec::new() };
        Self {
            reader,
            profile,
            group: None,
            transaction: None,
            open: Vec::new(),
            closes: false,
            unbalanced: None,
        }
    }

    /// The next tag.
    pub(super) fn tag(&mut self, tag: Tag<'a>) {
        match tag {
            Tag::Open { name, is_closed, attributes } => {
                let Some(element) = self.element(name) else { return };
                if !is_closed && element != Element::Flowop {
                    self.open.push((element, self.reader.place(name)));
                }
                let values = self.reader.values(element, attributes);
                self.open(element, self.reader.place(name), &values);
            }
            Tag::Close(name) => {
                let element = self.element(name);
                if let Some(element) = element.filter(|element| *element != Element::Flowop) {
                    self.close(element, self.reader.place(name));
                }
                match element {
                    Some(Element::Group) => self.end_group(),
                    Some(Element::Transaction) => self.end_transaction(),
                    Some(Element::Profile | Element::Flowop) | None => {}
                }
            }
        }
    }

    fn close(&mut self, element: Element, place: Place) {
        self.closes = true;
        let name = element.name();
        let Some(at) = self.open.iter().rposition(|(one, _)| *one == element) else {
            let sentence = format!("</{name}> closes nothing: no <{name}> is open here");
            self.unbalanced.get_or_insert((place, sentence));
            return;
        };
        let inner = self.open.drain(at..).nth(1);
        if let Some((inner, began)) = inner {
            let sentence = format!("the <{}> of {began} is still open here: close it before", inner.name());
            self.unbalanced.get_or_insert((place, sentence));
        }
    }

    /// What all tags together say.
    pub(super) fn finish(mut self) -> (Profile, Errors) {
        self.end_group();
        if let Some((element, place)) = self.open.first().copied().filter(|_| self.closes) {
            let name = element.name();
            let sentence = format!("the <{name}> that begins here is never closed: write </{name}>");
            self.unbalanced.get_or_insert((place, sentence));
        }
        // Beside another mistake it is most often the same one.
        if let Some((place, sentence)) = self.unbalanced.take().filter(|_| self.reader.errors.is_empty()) {
            self.error(place, sentence);
        }
        if self.profile.groups.is_empty() {
            self.reader.errors.add(None, "there is no <group> in this profile: nothing would be done");
        }
        (self.profile, self.reader.errors)
    }

    /// The element of this name, or the one that was meant.
    fn element(&mut self, name: Span<'a>) -> Option<Element> {
        Element::named(name.text).or_else(|| {
            let (meant, sentence) = Element::meant(name.text);
            self.reader.error(name, sentence);
            meant
        })
    }

    fn open(&mut self, element: Element, place: Place, values: &Values<'a>) {
        match element {
            Element::Profile => self.profile.name = self.reader.name(values).unwrap_or_default(),
            Element::Group => self.open_group(place, values),
            Element::Transaction => self.open_transaction(place, values),
            Element::Flowop => self.add_flowop(place, values),
        }
    }

    fn open_group(&mut self, place: Place, values: &Values<'a>) {
        self.end_group();
        let index = self.profile.groups.len();
        if index == MOST_GROUPS {
            self.error(place, format!("this is one group too many: {MOST_GROUPS} are the most"));
        }
        let (kind, value) = self.strands(place, values);
        let name = self.reader.name(values).unwrap_or_else(|| format!("Group{index}"));
        let strands = self.reader.parsed(value, strands).unwrap_or(1);
        self.group = Some((place, Group { name, strands, kind, transactions: Vec::new() }));
    }

    /// Of which kind and where their number is.
    fn strands(&mut self, place: Place, values: &Values<'a>) -> (StrandKind, Option<Span<'a>>) {
        match (values.find("nthreads"), values.find("nprocs")) {
            (None, processes @ Some(_)) => return (StrandKind::Processes, processes),
            (threads @ Some(_), None) => return (StrandKind::Threads, threads),
            (Some(_), Some(_)) => {
                self.error(place, "a group has either nthreads= or nprocs=, not both: make two groups of it");
            }
            (None, None) => self.error(place, "the group has no strands: give it nthreads= or nprocs="),
        }
        (StrandKind::Threads, None)
    }

    /// Transactions that have nothing to do are left out only here, so that the names of the others are uperf's.
    fn end_group(&mut self) {
        self.end_transaction();
        let Some((place, mut group)) = self.group.take() else { return };
        group.transactions.retain(|transaction| !is_nothing(transaction.until));
        if group.transactions.is_empty() {
            let right = "give it a transaction with iterations or a duration above 0";
            self.error(place, format!("the group does nothing: {right}"));
        }
        self.profile.groups.push(group);
    }

    fn open_transaction(&mut self, place: Place, values: &Values<'a>) {
        self.end_transaction();
        if self.group.is_none() {
            self.error(place, "a transaction belongs between <group ...> and </group>");
        }
        let duration = self.reader.parsed(values.find("duration"), time);
        let iterations = self.reader.parsed(values.find("iterations"), number);
        if let (Some(_), Some(_)) = (duration, iterations) {
            self.error(place, "a transaction has either iterations= or duration=, not both");
        }
        let rate = self.reader.parsed(values.find("rate"), number).and_then(NonZeroU32::new);
        let name = self.reader.name(values);
        let transaction = Transaction { rate, ..self.new_transaction(place, name) };
        self.transaction = Some((place, Transaction { until: until(duration, iterations), ..transaction }));
    }

    fn new_transaction(&mut self, place: Place, name: Option<String>) -> Transaction {
        let name = name.unwrap_or_else(|| format!("Txn{}", self.group(place).transactions.len()));
        Transaction { name, until: Until::Iterations(1), rate: None, flowops: Vec::new() }
    }

    fn end_transaction(&mut self) {
        let Some((place, transaction)) = self.transaction.take() else { return };
        let is_timed = matches!(transaction.until, Until::Duration(_)) && !is_nothing(transaction.until);
        if transaction.flowops.is_empty() && is_timed {
            self.error(place, "the transaction has a duration but no flowop: give it one, such as a think");
        }
        self.group(place).transactions.push(transaction);
    }

    fn add_flowop(&mut self, place: Place, values: &Values<'a>) {
        if self.transaction.is_none() {
            self.error(place, "a flowop belongs between <transaction ...> and </transaction>");
        }
        let kind = self.kind(place, values);
        let options = self.reader.options(values);
        self.transaction(place).flowops.push(Flowop { kind, options, place });
    }

    fn kind(&mut self, place: Place, values: &Values<'a>) -> FlowopKind {
        let value = values.find("type");
        if value.is_none() {
            self.error(place, "the flowop has no type: write type=\"read\", for example");
        }
        self.reader.parsed(value, kind).unwrap_or(FlowopKind::Nop)
    }

    /// The current group, or one made up.
    fn group(&mut self, place: Place) -> &mut Group {
        let made_up =
            || Group { name: String::new(), strands: 1, kind: StrandKind::Threads, transactions: Vec::new() };
        &mut self.group.get_or_insert_with(|| (place, made_up())).1
    }

    /// The current transaction, or one made up.
    fn transaction(&mut self, place: Place) -> &mut Transaction {
        let made_up = self.new_transaction(place, None);
        &mut self.transaction.get_or_insert((place, made_up)).1
    }

    fn error(&mut self, place: Place, sentence: impl Into<String>) {
        self.reader.errors.add(place, sentence);
    }
}

/// One iteration is what a transaction has in uperf, too.
fn until(duration: Option<Duration>, iterations: Option<u32>) -> Until {
    match (duration, iterations) {
        (Some(duration), _) => Until::Duration(duration),
        (None, iterations) => Until::Iterations(iterations.unwrap_or(1).into()),
    }
}

/// uperf has no duration of 0; iterations of 0 it passes over, too.
fn is_nothing(until: Until) -> bool {
    matches!(until, Until::Iterations(0) | Until::Duration(Duration::ZERO))
}

fn strands(text: &str) -> Result<u32, String> {
    match number(text)? {
        0 => Err("0 strands do nothing: at least 1 is wanted".into()),
        strands if strands > MOST_STRANDS => {
            Err(format!("`{text}` is too large: {MOST_STRANDS} strands are the most"))
        }
        strands => Ok(strands),
    }
}

fn kind(text: &str) -> Result<FlowopKind, String> {
    use clap::ValueEnum;
    FlowopKind::from_str(text, true).map_err(|_| {
        let names: Vec<String> = FlowopKind::value_variants().iter().map(ToString::to_string).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("`{text}` is no flowop: {}", suggest(&text.to_ascii_lowercase(), &known))
    })
}
