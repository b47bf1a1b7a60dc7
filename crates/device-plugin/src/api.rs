//! The kubelet's device plugin interface, version v1beta1: its messages, and what its calls are named. Owns:
//! the numbers of the fields. (kubernetes.io/docs, "Device Plugins", and k8s.io/kubelet's `api.proto`.)

use std::collections::BTreeMap;

/// The version that is spoken.
pub const VERSION: &str = "v1beta1";
/// Where a kubelet has its own socket and those of all plugins.
pub const FOLDER: &str = "/var/lib/kubelet/device-plugins";
/// The kubelet's own socket there.
pub const KUBELET: &str = "kubelet.sock";
/// The one call that a plugin makes.
pub const REGISTER: &str = "/v1beta1.Registration/Register";
/// What a kubelet asks a plugin for.
pub const GET_OPTIONS: &str = "/v1beta1.DevicePlugin/GetDevicePluginOptions";
/// All devices, and again whenever that changes.
pub const LIST_AND_WATCH: &str = "/v1beta1.DevicePlugin/ListAndWatch";
/// What containers need that get devices.
pub const ALLOCATE: &str = "/v1beta1.DevicePlugin/Allocate";
/// Asked before a container starts, if the options say so.
pub const PRE_START: &str = "/v1beta1.DevicePlugin/PreStartContainer";
/// A device that containers may get.
pub const HEALTHY: &str = "Healthy";
/// One that no new container gets.
pub const UNHEALTHY: &str = "Unhealthy";

/// Which of the calls that need not be made are to be made.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Options {
    /// Before each container's start.
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    /// When there are several devices to choose from.
    #[prost(bool, tag = "2")]
    pub preferred_allocation_available: bool,
}

/// A plugin that announces itself.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterRequest {
    /// Of this interface.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The file name of the plugin's socket.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// What containers ask for.
    #[prost(string, tag = "3")]
    pub resource_name: String,
    /// As the plugin itself would answer.
    #[prost(message, optional, tag = "4")]
    pub options: Option<Options>,
}

/// Nothing.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

/// One device. (On which memory node it lies is not said: it lies on none.)
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// Of this plugin; 63 characters at most.
    #[prost(string, tag = "1")]
    pub id: String,
    /// [`HEALTHY`] or [`UNHEALTHY`].
    #[prost(string, tag = "2")]
    pub health: String,
}

/// All devices.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListAndWatchResponse {
    /// In any order.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// What the containers of a pod are to get.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateRequest {
    /// One for each container.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerRequest>,
}

/// What one container is to get; the devices' names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerRequest {
    /// As they were listed.
    #[prost(string, repeated, tag = "1")]
    pub devices: Vec<String>,
}

/// What the containers need for that.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateResponse {
    /// In the order of the request.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerResponse>,
}

/// What one container needs. (Field 3, nodes of /dev, and field 4, annotations, are nothing of ours.)
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerResponse {
    /// Variables.
    #[prost(btree_map = "string, string", tag = "1")]
    pub envs: BTreeMap<String, String>,
    /// Files and folders of the host.
    #[prost(message, repeated, tag = "2")]
    pub mounts: Vec<Mount>,
    /// The same by name, for engines that have the specification.
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A file or folder of the host in a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Mount {
    /// Where it is there.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// Where it is on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// Nobody writes there.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// A device of the Container Device Interface.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CdiDevice {
    /// In full: vendor/class=device.
    #[prost(string, tag = "1")]
    pub name: String,
}
