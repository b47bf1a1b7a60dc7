"""Whether Kubernetes would take a manifest: FILE UNIT. Each object is held against the API's schema, as Kubernetes' own
client library has it (which is made from the published one): no key that it does not know, no value of another
type, nothing missing. Then what the schema does not say: names that must agree, and what the daemon's UNIT of systemd lets it keep.

First it must find what is wrong with copies into which a fault was put."""
import copy, re, sys
import yaml
from kubernetes import client

KINDS = {("v1", "ConfigMap"): "V1ConfigMap", ("apps/v1", "DaemonSet"): "V1DaemonSet"}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}

def faults(value, kind, path):
    """What of a value does not fit a type of the schema."""
    inner = re.fullmatch(r"(list\[|dict\(str, )(.*)[\])]", kind)
    if inner:
        wanted = list if kind.startswith("list") else dict
        if not isinstance(value, wanted):
            return ["%s: no %s" % (path, wanted.__name__)]
        parts = value.items() if wanted is dict else enumerate(value)
        return [fault for key, part in parts for fault in faults(part, inner.group(2), "%s.%s" % (path, key))]
    if kind in PLAIN:
        is_so = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
        return [] if is_so else ["%s: no %s" % (path, kind)]
    if kind in ("object", "datetime"):
        return []
    return faults_of_object(value, getattr(client, kind), path)

def faults_of_object(value, model, path):
    if not isinstance(value, dict):
        return ["%s: no object" % path]
    names = {key: name for name, key in model.attribute_map.items()}
    found = ["%s.%s: unknown" % (path, key) for key in value if key not in names]
    known = {names[key]: part for key, part in value.items() if key in names}
    try:
        model(**known)
    except ValueError as error:
        found.append("%s: %s" % (path, error))
    for name, part in known.items():
        found += faults(part, model.openapi_types[name], "%s.%s" % (path, model.attribute_map[name]))
    return found

def disagreements(daemon_set):
    spec = daemon_set["spec"]
    labels = spec["template"]["metadata"]["labels"]
    found = [name for name, value in spec["selector"]["matchLabels"].items() if labels.get(name) != value]
    pod = spec["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    containers = pod["initContainers"] + pod["containers"]
    mounts = [mount for container in containers for mount in container["volumeMounts"]]
    found += ["no volume " + mount["name"] for mount in mounts if mount["name"] not in volumes]
    found += ["idle volume " + name for name in volumes if name not in [mount["name"] for mount in mounts]]
    # What the specification names is asked for by the node's paths.
    for mount in mounts:
        host = volumes.get(mount["name"], {}).get("hostPath", {}).get("path", mount["mountPath"])
        if host != mount["mountPath"] and mount["name"] != "cgroups":
            found.append("%s lies elsewhere on the node: %s" % (mount["mountPath"], host))
    unit = open(sys.argv[2]).read()
    allowed = re.search("^CapabilityBoundingSet=(.*)$", unit, re.M).group(1)
    if kept(pod) != {name[4:].lower() for name in allowed.split()}:
        found.append("the daemon keeps other capabilities than its unit says: %s" % allowed)
    return found

def kept(pod):
    """The capabilities that the daemon keeps."""
    words = [word for container in pod["containers"] for word in container["command"] if "bounding-set" in word]
    return {name for word in words for name in re.findall(r"\+(\w+)", word)}

def all_faults(documents):
    found = []
    for document in documents:
        kind = KINDS.get((document.get("apiVersion"), document.get("kind")))
        found += faults(document, kind, document["kind"]) if kind else ["no such kind: %s" % document.get("kind")]
    return found or [fault for document in documents if document["kind"] == "DaemonSet" for fault in disagreements(document)]

def spoiled(documents):
    def with_fault(spoil):
        copies = copy.deepcopy(documents)
        sets = [document for document in copies if document["kind"] == "DaemonSet"]
        spoil(sets[0], sets[0]["spec"]["template"]["spec"])
        return copies
    yield with_fault(lambda it, pod: pod["containers"][0].update(volumemounts=[]))
    yield with_fault(lambda it, pod: pod.update(hostPID="true"))
    yield with_fault(lambda it, pod: pod.pop("containers"))
    yield with_fault(lambda it, pod: pod["volumes"][0].pop("name"))
    yield with_fault(lambda it, pod: pod["volumes"].pop())
    yield with_fault(lambda it, pod: it["spec"].update(selector={"matchLabels": {"a": "b"}}))
    yield with_fault(lambda it, pod: pod["containers"][0]["command"].__setitem__(3, "--bounding-set=-all,+sys_admin"))
    yield with_fault(lambda it, pod: it.update(apiVersion="extensions/v1beta1"))

documents = list(yaml.safe_load_all(open(sys.argv[1])))
for number, wrong in enumerate(spoiled(documents)):
    if not all_faults(wrong):
        sys.exit("fault %d is not found" % number)
found = all_faults(documents)
print("\n".join(found) if found else "fits")
