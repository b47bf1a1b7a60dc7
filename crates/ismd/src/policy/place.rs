//! Addresses and ports, as a rule has them: of the ends of a connection as its server's socket has them.
//! Owns: that what is written is one network or one range, and nothing is guessed.

use std::net::{IpAddr, Ipv6Addr};

/// Addresses with a common beginning; those of version 4 mapped into version 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: u128,
    pub(crate) mask: u128,
}

/// Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) low: u16,
    pub(crate) high: u16,
}

/// Where one end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) network: Network,
    pub(crate) ports: Ports,
}

impl Network {
    const ANY: Self = Network { address: 0, mask: 0 };

    /// "10.0.0.0/8", "fd00::/8" or a single address. Error: what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let ip: IpAddr = address.parse().map_err(|_| format!("\"{address}\" is no IP address"))?;
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        let length = match text.contains('/') {
            true => length.parse::<u32>().ok().filter(|length| *length <= bits),
            false => Some(bits),
        };
        let length = length.ok_or_else(|| format!("a network has at most {bits} bits: \"{text}\""))?;
        let mask = !u128::MAX.checked_shr(128 - bits + length).unwrap_or(0);
        let address = number(ip);
        if address & !mask != 0 {
            return Err(format!("\"{text}\" has bits beyond its first {length}"));
        }
        Ok(Network { address, mask })
    }
}

fn number(ip: IpAddr) -> u128 {
    let v6: Ipv6Addr = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    v6.to_bits()
}

impl Ports {
    const ANY: Self = Ports { low: 0, high: u16::MAX };

    /// "7000" or "7000-7999". Error: what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        match (port(low), port(high)) {
            (Some(low), Some(high)) if low <= high => Ok(Ports { low, high }),
            _ => Err(format!("\"{text}\" is no port from 1 to 65535, nor a range of them (7000-7999)")),
        }
    }
}

impl Place {
    /// Each of the networks with each of the ports; all there are of either if none is named.
    pub(crate) fn all(networks: &[Network], ports: &[Ports]) -> Vec<Place> {
        let networks = if networks.is_empty() { &[Network::ANY] } else { networks };
        let ports = if ports.is_empty() { &[Ports::ANY] } else { ports };
        let at = |network: Network| ports.iter().map(move |ports| Place { network, ports: *ports });
        networks.iter().flat_map(|network| at(*network)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_told_from_what_is_none() {
        let has = |network: &str, ip: &str| {
            let network = Network::parse(network).expect(network);
            number(ip.parse().expect(ip)) & network.mask == network.address
        };
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.0.0.1", "10.0.0.1") && !has("10.0.0.1", "10.0.0.2"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "::1") && has("::/0", "1.2.3.4"));
        assert!(has("fd05::/64", "fd05::9") && !has("fd05::/64", "fd05:0:0:1::9"));
        for text in ["", "/", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.1/8", "host", "10.0.0.0/-1"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(Ports::parse("7"), Ok(Ports { low: 7, high: 7 }));
        assert_eq!(Ports::parse("7-65535"), Ok(Ports { low: 7, high: 65535 }));
        for text in ["0", "65536", "8-7", "-", "7-", "http", "1-2-3"] {
            assert!(Ports::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn where_nothing_is_said_it_is_anywhere() {
        let network = Network::parse("10.0.0.0/8").expect("one");
        let two = [1, 2].map(|port| Ports { low: port, high: port });
        assert_eq!(Place::all(&[], &[]), [Place { network: Network::ANY, ports: Ports::ANY }]);
        assert_eq!(Place::all(&[network], &two), two.map(|ports| Place { network, ports }));
    }
}
