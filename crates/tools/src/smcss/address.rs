//! Addresses as smcss writes them. Owns: the column's width and how a long address is cut to it.

use super::row::Address;
use std::net::{IpAddr, Ipv4Addr};

/// Width of the address columns.
pub(super) const WIDTH: usize = 23;

/// `ip:port`, cut to [`WIDTH`] unless `wide`.
pub(super) fn text(address: &Address, wide: bool) -> String {
    let (ip, port) = (shown(address.ip).to_string(), address.port.to_string());
    if wide || ip.len() + 1 + port.len() <= WIDTH {
        return format!("{ip}:{port}");
    }
    format!("{}..:{port}", &ip[..WIDTH - 3 - port.len()])
}

/// The original tells the families apart by the address words behind the first: all zero means IPv4, `::`
/// included.
fn shown(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) if v6.octets()[4..] == [0; 12] => {
            let [a, b, c, d, ..] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, text};

    fn written(ip: &str, port: u16, wide: bool) -> String {
        text(&Address { ip: ip.parse().expect("an address"), port }, wide)
    }

    #[test]
    fn short_addresses_stand_as_they_are() {
        assert_eq!(written("127.0.0.1", 80, false), "127.0.0.1:80");
        assert_eq!(written("255.255.255.255", 65535, false), "255.255.255.255:65535");
        assert_eq!(written("::1", 0, false), "::1:0");
        assert_eq!(written("::", 80, false), "0.0.0.0:80");
        assert_eq!(written("::ffff:10.0.0.1", 80, false), "::ffff:10.0.0.1:80");
    }

    #[test]
    fn long_addresses_are_cut_to_the_column() {
        let long = "2001:db8:1111:2222:3333:4444:5555:6666";
        assert_eq!(written(long, 80, false), "2001:db8:1111:2222..:80");
        assert_eq!(written(long, 65535, false), "2001:db8:1111:2..:65535");
        assert_eq!(written("2001:db8::1234:5678:9", 1, false), "2001:db8::1234:5678:9:1");
        assert_eq!(written("2001:db8::1234:5678:9", 10, false), "2001:db8::1234:567..:10");
        assert_eq!(written(long, 80, true), format!("{long}:80"));
    }
}
