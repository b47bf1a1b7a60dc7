//! What a kubelet asks, answered. Owns: as many devices as were asked for, healthy while the daemon helps
//! containers; each container that gets some, however many, gets what a container needs, once.

use crate::allocation::Allocation;
use crate::api::{
    ALLOCATE, AllocateRequest, AllocateResponse, Device, Empty, GET_OPTIONS, HEALTHY, LIST_AND_WATCH,
    ListAndWatchResponse, Options, PRE_START, UNHEALTHY,
};
use crate::rpc::{Answer, Service, Status};
use prost::Message;
use std::path::PathBuf;
use tokio::sync::watch;

/// The devices of this node. They are all the same: each stands for a container that takes part.
#[derive(Debug)]
pub struct Plugin {
    specification: PathBuf,
    is_by_name: bool,
    devices: Vec<String>,
    list: watch::Sender<Vec<u8>>,
}

impl Plugin {
    /// So many devices, none of them healthy so far. `is_by_name`: engines know the specification.
    pub fn new(specification: PathBuf, is_by_name: bool, count: u16) -> Plugin {
        let devices: Vec<String> = (0..count).map(|number| format!("smc-{number}")).collect();
        let list = watch::Sender::new(list(&devices, false));
        Plugin { specification, is_by_name, devices, list }
    }

    /// Whether new containers may get devices.
    pub fn set_health(&self, is_healthy: bool) {
        let list = list(&self.devices, is_healthy);
        self.list.send_if_modified(|old| {
            let is_new = *old != list;
            *old = list;
            is_new
        });
    }

    /// Whether a kubelet hears of our health.
    pub fn is_heard(&self) -> bool {
        self.list.receiver_count() > 0
    }

    fn allocate(&self, message: &[u8]) -> Result<AllocateResponse, Status> {
        let request: AllocateRequest = read(message)?;
        let mut wanted = request.containers.iter().flat_map(|container| &container.devices);
        if !wanted.all(|device| self.devices.contains(device)) {
            return Err(Status::new(Status::INVALID, "no such device"));
        }
        let allocation = Allocation::read(&self.specification)
            .map_err(|error| Status::new(Status::INTERNAL, format_args!("{error:#}")))?;
        let one = if self.is_by_name { allocation.by_name } else { allocation.in_full };
        Ok(AllocateResponse { containers: vec![one; request.containers.len()] })
    }
}

/// None of the calls that need not be made.
pub fn options() -> Options {
    Options::default()
}

impl Service for Plugin {
    fn call(&self, name: &str, message: &[u8]) -> Result<Answer, Status> {
        Ok(match name {
            GET_OPTIONS => Answer::One(options().encode_to_vec()),
            LIST_AND_WATCH => Answer::News(self.list.subscribe()),
            ALLOCATE => Answer::One(self.allocate(message)?.encode_to_vec()),
            // (Not asked for; and there is nothing to be done.)
            PRE_START => Answer::One(Empty {}.encode_to_vec()),
            _ => return Err(Status::new(Status::UNIMPLEMENTED, "no such call")),
        })
    }
}

fn list(devices: &[String], is_healthy: bool) -> Vec<u8> {
    let health = if is_healthy { HEALTHY } else { UNHEALTHY };
    let device = |id: &String| Device { id: id.clone(), health: health.into() };
    ListAndWatchResponse { devices: devices.iter().map(device).collect() }.encode_to_vec()
}

fn read<T: Message + Default>(message: &[u8]) -> Result<T, Status> {
    T::decode(message).map_err(|error| Status::new(Status::INVALID, error))
}
