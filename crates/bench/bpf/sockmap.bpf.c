// The path `sockmap`: when a TCP connection over 127.0.0.1 of the cgroup opens, each end goes into a map by its
// addresses; when an end sends, the other one is looked for and handed the bytes.
#include <linux/bpf.h>

// Helpers, by their numbers in <linux/bpf.h>.
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*put_socket)(struct bpf_sock_ops *ctx, void *map, void *key, __u64 flags) = (void *)70;
static long (*redirect_to)(struct sk_msg_md *msg, void *map, void *key, __u64 flags) = (void *)71;

#define SEC(name) __attribute__((section(name), used))
#define UINT(name, value) int(*name)[value]
#define TYPE(name, type) type *name

// Addresses in the network's order, ports in the host's. (The kernel has remote ports in the network's.)
struct key {
	__u32 local_address, local_port, remote_address, remote_port;
};

struct { // more connections than a comparison has
	UINT(type, BPF_MAP_TYPE_SOCKHASH);
	TYPE(key, struct key);
	TYPE(value, __u32);
	UINT(max_entries, 65536);
} sockets SEC(".maps");

struct { // messages so far, by processor
	UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	TYPE(key, __u32);
	TYPE(value, __u64);
	UINT(max_entries, 1);
} redirected SEC(".maps");

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OF_NETWORK(word) __builtin_bswap32(word)
#else
#define OF_NETWORK(word) (word)
#endif

SEC("sockops") int remember(struct bpf_sock_ops *ctx)
{
	struct key key = { ctx->local_ip4, ctx->local_port, ctx->remote_ip4, OF_NETWORK(ctx->remote_port) };
	int is_open = ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;

	if (is_open && key.local_address == OF_NETWORK(0x7f000001))
		put_socket(ctx, &sockets, &key, BPF_ANY);
	return 1;
}

// The other end's key is ours with the ends exchanged. A message that cannot be redirected goes over TCP.
SEC("sk_msg") int redirect(struct sk_msg_md *msg)
{
	struct key key = { msg->remote_ip4, OF_NETWORK(msg->remote_port), msg->local_ip4, msg->local_port };
	__u32 index = 0;
	__u64 *count;

	if (redirect_to(msg, &sockets, &key, BPF_F_INGRESS) == SK_PASS && (count = map_lookup(&redirected, &index)))
		++*count;
	return SK_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL"; // what the kernel requires for the helpers
