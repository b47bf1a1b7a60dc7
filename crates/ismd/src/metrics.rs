//! What is told to whoever scrapes: OpenMetrics. Owns: the names.

use crate::broker::Broker;
use crate::who::Payer;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// One label and its value.
type Labels = Vec<(&'static str, String)>;

/// Everything, as it is now. `marks`: connections are marked.
pub(crate) fn text<D>(broker: &Broker<D>, marks: bool) -> String {
    let mut registry = Registry::with_prefix("ismd");
    now(&mut registry, broker, marks);
    by_function(&mut registry, broker);
    by_user(&mut registry, broker);
    so_far(&mut registry, broker);
    let mut text = String::new();
    // (Only writing to a string could fail, which does not.)
    let _ = encode(&mut text, &registry);
    text
}

fn now<D>(registry: &mut Registry, broker: &Broker<D>, marks: bool) {
    let (segments, bytes) = broker.offered();
    let mut gauge = |name, help, value: i64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    gauge(
        "marks",
        "Whether connections are marked: 0 where those between containers stay on TCP",
        marks.into(),
    );
    gauge("clients", "Processes that have said hello", broker.clients() as i64);
    gauge("segments", "Segments on offer", segments as i64);
    gauge("segment_bytes", "Bytes of segments on offer", i64::try_from(bytes).unwrap_or(i64::MAX));
}

fn by_function<D>(registry: &mut Registry, broker: &Broker<D>) {
    let processes = Family::<Labels, Gauge>::default();
    let connections = Family::<Labels, Gauge>::default();
    for ((vchid, fid), function) in broker.functions.all() {
        let labels = vec![("vchid", format!("{vchid:04x}")), ("fid", format!("{fid:04x}"))];
        processes.get_or_create(&labels).set(function.processes.into());
        connections.get_or_create(&labels).set(function.connections().into());
    }
    registry.register("function_processes", "Processes that hold a function", processes);
    registry.register("function_connections", "Slots with doorbells of a function", connections);
}

fn by_user<D>(registry: &mut Registry, broker: &Broker<D>) {
    let bytes = Family::<Labels, Gauge>::default();
    for (payer, amount) in broker.accounts.users() {
        let held = i64::try_from(amount.bytes).unwrap_or(i64::MAX);
        let label = match payer {
            Payer::User(uid) => ("uid", uid.to_string()),
            Payer::Namespace(inode) => ("user_namespace", inode.to_string()),
            Payer::Unknown => continue,
        };
        bytes.get_or_create(&vec![label]).set(held);
    }
    registry.register("user_bytes", "Bytes on offer that count for a user's quota", bytes);
}

fn so_far<D>(registry: &mut Registry, broker: &Broker<D>) {
    let counts = &broker.counts;
    for (name, help, count) in [
        ("hellos", "Processes that were let in", counts.clients),
        ("offers", "Segments that were offered", counts.offers),
        ("claims", "Segments that were passed on", counts.claims),
        ("thrown_out", "Connections that broke the protocol or were silent", counts.thrown_out),
        ("log_lines_lost", "Lines of the log that nobody took", crate::log::lost()),
    ] {
        let counter: Counter = Counter::default();
        counter.inc_by(count);
        registry.register(name, help, counter);
    }
    let refused = Family::<Labels, Counter>::default();
    for (reason, count) in &counts.refused {
        refused.get_or_create(&vec![("code", reason.to_string())]).inc_by(*count);
    }
    registry.register("refusals", "Refusals by reason code", refused);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::file::parse;
    use wire::Reason;

    #[test]
    fn the_text_has_every_name_and_its_end() {
        let policy = parse("test", "").unwrap_or_else(|fault| panic!("{fault}"));
        let mut broker: Broker<()> = Broker::new(policy, 1, 1, 1);
        broker.counts.refused.insert(Reason::MAX_DMB, 3);
        assert!(text(&broker, true).contains("\nismd_marks 1\n"));
        let text = text(&broker, false);
        for line in [
            "# TYPE ismd_clients gauge",
            "ismd_marks 0",
            "ismd_segment_bytes 0",
            "ismd_claims_total 0",
            "ismd_refusals_total{code=\"0x030d0000\"} 3",
        ] {
            assert!(text.lines().any(|is| is == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
