//! One option of a flowop: a word such as `size=30k` or `tcp_nodelay`.
//!
//! Options of uperf that mean nothing on Linux or to the protocols that are spoken here are taken and do nothing, as in a
//! uperf that was built without them. What would be a different measurement, another protocol, is refused.

use std::num::NonZeroU32;

use super::numbers::{plain, size, time};
use super::source::Span;
use super::variables::Variables;
use crate::profile::options::{Options, Protocol, Size};
use crate::profile::suggest::suggest;

const FLAGS: &str = "tcp_nodelay busy idle canfail non_blocking";
const VALUES: &str = "size rsize count repeat batch_size port protocol conn remotehost localhost wndsz timeout duration \
                      nfiles dir cc";
/// FreeBSD's, SCTP's and SSL's.
const UNUSED: &str = "stack bblog encaps engine cipher method sctp_unordered sctp_nodelay sctp_rto_min sctp_rto_max \
                      sctp_rto_initial sctp_sack_delay sctp_sack_frequency sctp_max_burst_size sctp_max_fragment_size \
                      sctp_hb_interval sctp_path_mtu sctp_in_streams sctp_out_streams sctp_stream_id sctp_pr_value \
                      sctp_pr_policy";

/// uperf can be built with these.
const FOREIGN_PROTOCOLS: [&str; 4] = ["rds", "sctp", "ssl", "vsock"];

/// Whether `key` is the name of an option.
pub(super) fn is_known(key: &str) -> bool {
    [FLAGS, VALUES, UNUSED].iter().any(|names| has(names, key))
}

fn has(names: &str, key: &str) -> bool {
    names.split(' ').any(|name| name == key)
}

/// Puts what `word` says into `options`; a variable may stand for several options. The error is a sentence about it.
pub(super) fn set_all(options: &mut Options, word: &str, variables: &Variables<'_>) -> Result<(), String> {
    if !word.starts_with('$') {
        return set(options, word, variables);
    }
    let text = variables.resolve_filled(word)?;
    let words = Span { text: &text, offset: 0 }.words();
    words.iter().try_for_each(|word| set(options, word.text, variables))
}

fn set(options: &mut Options, word: &str, variables: &Variables<'_>) -> Result<(), String> {
    let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
    let key = key.to_ascii_lowercase();
    // uperf passes over whatever does not begin with a letter; of that, only commas and the like are meant.
    let is_punctuation = !word.contains(char::is_alphanumeric);
    if is_punctuation || has(UNUSED, &key) {
        return Ok(());
    }
    match value {
        None => set_flag(options, &key),
        Some(_) if has(FLAGS, &key) => Err(format!("`{key}` takes no value: write {key} alone")),
        Some(_) if !has(VALUES, &key) => Err(unknown(&key)),
        Some("") => Err(format!("`{key}=` has no value: it follows the `=` without a space")),
        Some(value) => set_variable(options, &key, value, variables),
    }
}

fn set_flag(options: &mut Options, key: &str) -> Result<(), String> {
    match key {
        "tcp_nodelay" => options.tcp_nodelay = true,
        "busy" => options.busy = true,
        // What a think does anyway; with both, busy counts.
        "idle" => {}
        "canfail" => options.canfail = true,
        "non_blocking" => options.non_blocking = true,
        _ if has(VALUES, key) => return Err(format!("`{key}` has no value: write {key}=...")),
        _ => return Err(unknown(key)),
    }
    Ok(())
}

fn set_variable(
    options: &mut Options,
    key: &str,
    text: &str,
    variables: &Variables<'_>,
) -> Result<(), String> {
    let may_be_empty = key == "localhost" || key == "cc";
    let value = if may_be_empty { variables.resolve(text) } else { variables.resolve_filled(text) }?;
    let from = |sentence| if text.starts_with('$') { format!("{sentence} (from {text})") } else { sentence };
    set_value(options, key, &value, variables).map_err(from)
}

fn set_value(options: &mut Options, key: &str, value: &str, variables: &Variables<'_>) -> Result<(), String> {
    match key {
        "size" => options.size = Some(any_size(value, variables)?),
        "rsize" => options.rsize = Some(size(value)?).filter(|&bytes| bytes > 0),
        "count" => options.count = positive(key, value)?,
        "repeat" => options.repeat = positive(key, value)?,
        "batch_size" => options.batch_size = limited(key, positive(key, value)?)?,
        "port" => options.port = Some(limited(key, plain(value)?)?).filter(|&port| port > 0),
        "protocol" => options.protocol = protocol(&value.to_ascii_lowercase())?,
        "conn" => options.conn = NonZeroU32::new(limited(key, positive(key, value)?)?),
        "remotehost" => options.remotehost = host(value),
        "localhost" => options.localhost = host(value),
        "wndsz" => options.wndsz = Some(size(value)?).filter(|&bytes| bytes > 0),
        "timeout" => options.timeout = Some(some_time(key, value)?),
        "duration" => options.duration = Some(some_time(key, value)?),
        "nfiles" => options.nfiles = limited(key, positive(key, value)?)?,
        // A path keeps its capitals, though uperf's parser would take them away.
        "dir" => options.dir = Some(value.to_owned()),
        "cc" => options.cc = host(value),
        _ => return Err(unknown(key)),
    }
    Ok(())
}

/// `8k` or `rand(min,max)`.
fn any_size(value: &str, variables: &Variables<'_>) -> Result<Size, String> {
    let lower = value.to_ascii_lowercase();
    if !lower.starts_with("rand") {
        return match size(value)? {
            0 => Err("`size=0` moves nothing: a size is at least 1".into()),
            bytes => Ok(Size::Fixed(bytes)),
        };
    }
    let arguments = lower.strip_prefix("rand(").and_then(|rest| rest.strip_suffix(')'));
    let Some((min, max)) = arguments.and_then(|arguments| arguments.split_once(',')) else {
        return Err(format!("`{value}` is no size: write rand(min,max), such as rand(1,8k)"));
    };
    let bound = |text: &str| variables.resolve_filled(text.trim()).and_then(|text| size(&text));
    match (bound(min)?, bound(max)?) {
        (0, _) => Err(format!("`{value}` begins at 0: a size is at least 1")),
        (min, max) if min > max => Err(format!("`{value}` begins above its end: write rand({max},{min})")),
        (min, max) => Ok(Size::Random { min, max }),
    }
}

fn protocol(value: &str) -> Result<Protocol, String> {
    match value {
        "tcp" => Ok(Protocol::Tcp),
        "udp" => Ok(Protocol::Udp),
        "unix" => Ok(Protocol::Unix),
        _ if FOREIGN_PROTOCOLS.contains(&value) => {
            Err(format!("`{value}` is a protocol of uperf that is not measured here: use tcp, udp or unix"))
        }
        _ => Err(format!("`{value}` is no protocol: use tcp, udp or unix")),
    }
}

/// Names of hosts and algorithms are small letters, as uperf makes them; an empty one is none.
fn host(value: &str) -> Option<String> {
    Some(value.to_ascii_lowercase()).filter(|host| !host.is_empty())
}

fn positive(key: &str, value: &str) -> Result<u64, String> {
    match plain(value)? {
        0 => Err(format!("`{key}=0` would do nothing: at least 1 is wanted")),
        number => Ok(number),
    }
}

fn limited<N: TryFrom<u64>>(key: &str, number: u64) -> Result<N, String> {
    N::try_from(number).map_err(|_| {
        let most = if key == "port" { u64::from(u16::MAX) } else { u64::from(u32::MAX) };
        format!("`{key}={number}` is too large: {most} is the most")
    })
}

fn some_time(key: &str, value: &str) -> Result<std::time::Duration, String> {
    match time(value)? {
        zero if zero.is_zero() => Err(format!("`{key}={value}` is no time at all: leave it out")),
        duration => Ok(duration),
    }
}

fn unknown(key: &str) -> String {
    let known: Vec<&str> = VALUES.split(' ').chain(FLAGS.split(' ')).collect();
    format!("`{key}` is no option of a flowop: {}", suggest(key, &known))
}
