"""A kubelet as far as a device plugin sees it, by gRPC's own library: FOLDER COUNT. Waits for a plugin to register,
for its devices to be healthy, gives COUNT containers one device each, and prints what those get, as JSON."""
import json, os, sys
from concurrent import futures
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

STRING, BOOL, MESSAGE = 9, 8, 11
# Messages of k8s.io/kubelet's v1beta1: fields by number; a list is repeated.
MESSAGES = {
    "Empty": {},
    "Options": {"pre_start_required": (1, BOOL), "get_preferred_allocation_available": (2, BOOL)},
    "RegisterRequest": {"version": (1, STRING), "endpoint": (2, STRING), "resource_name": (3, STRING), "options": (4, "Options")},
    "Device": {"ID": (1, STRING), "health": (2, STRING)},
    "List": {"devices": (1, ["Device"])},
    "ContainerRequest": {"devices_ids": (1, [STRING])},
    "Request": {"container_requests": (1, ["ContainerRequest"])},
    "Env": {"key": (1, STRING), "value": (2, STRING)},
    "Mount": {"container_path": (1, STRING), "host_path": (2, STRING), "read_only": (3, BOOL)},
    "Cdi": {"name": (1, STRING)},
    "ContainerResponse": {"envs": (1, ["Env"]), "mounts": (2, ["Mount"]), "cdi_devices": (5, ["Cdi"])},
    "Response": {"container_responses": (1, ["ContainerResponse"])},
}

def classes():
    file = descriptor_pb2.FileDescriptorProto(name="api.proto", package="v1beta1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            is_list = isinstance(kind, list)
            kind = kind[0] if is_list else kind
            is_message = isinstance(kind, str)
            message.field.add(name=field, number=number, label=3 if is_list else 1, json_name=field,
                              type=MESSAGE if is_message else kind, type_name=".v1beta1." + kind if is_message else None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName("v1beta1." + name)) for name in MESSAGES}

types = classes()
registered = futures.Future()

def register(request, context):
    registered.set_result(request)
    return types["Empty"]()

folder, count = sys.argv[1], int(sys.argv[2])
server = grpc.server(futures.ThreadPoolExecutor(2))
handler = grpc.unary_unary_rpc_method_handler(register, types["RegisterRequest"].FromString, types["Empty"].SerializeToString)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),))
server.add_insecure_port("unix:" + os.path.join(folder, "kubelet.sock"))
server.start()
plugin = registered.result(60)
assert (plugin.version, plugin.resource_name) == ("v1beta1", "isthmus/smc"), plugin

# (A kubelet says whom it means as localhost.)
channel = grpc.insecure_channel("unix:" + os.path.join(folder, plugin.endpoint), [("grpc.default_authority", "localhost")])

def method(name, kind, request, response):
    make = getattr(channel, kind)
    return make("/v1beta1.DevicePlugin/" + name, types[request].SerializeToString, types[response].FromString)

empty = types["Empty"]()
options = method("GetDevicePluginOptions", "unary_unary", "Empty", "Options")(empty, timeout=60)
assert options == plugin.options, options
for devices in method("ListAndWatch", "unary_stream", "Empty", "List")(empty, timeout=60):
    healthy = [device.ID for device in devices.devices if device.health == "Healthy"]
    if len(healthy) >= count:
        break
request = types["Request"](container_requests=[types["ContainerRequest"](devices_ids=[name]) for name in healthy[:count]])
response = method("Allocate", "unary_unary", "Request", "Response")(request, timeout=60)
method("PreStartContainer", "unary_unary", "ContainerRequest", "Empty")(types["ContainerRequest"](devices_ids=healthy[:1]), timeout=60)
try:
    method("GetPreferredAllocation", "unary_unary", "Empty", "Empty")(empty, timeout=60)
    sys.exit("it offers what it said it does not")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
channel.close()
server.stop(None)
print(json.dumps([json_format.MessageToDict(one, preserving_proto_field_name=True) for one in response.container_responses]))
