// The mark: the TCP option of RFC 7609 on SYN and SYN-ACK, with a token that leads to the client's intent, and the
// proof by both initial sequence numbers that two sockets are one connection of this kernel.
//
// No program stands at setsockopt or getsockopt, so that nobody else's calls cost more. Each process that takes part
// has a table of its own, which it has mapped and which is found here by its process id: there it says what it
// wants with a socket, by the socket's cookie, and there it is told what came of it. Who it is stands in `clients`,
// which only the daemon writes: nothing that a process says of itself is believed. A process id is a program's for as
// long as that runs: at exec and at its end the entry goes, before the next one has its first instruction, and the
// daemon can write it again only for a process that has answered it since (`CONFIRMED`). Nor is a process asked whether
// two may talk: the daemon writes what the policy says (`rules`, `rights`), and here it is decided for each connection,
// by who the ends are and by the addresses that the server's socket has.
//
// The layout of an entry is crates/fabric/src/host/marks.rs's; a change of any layout takes another folder of pins.
#include <linux/bpf.h>

// Helpers, by their numbers in <linux/bpf.h>.
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static __u64 (*time_now)(void) = (void *)5;
static __u32 (*prandom)(void) = (void *)7;
static __u64 (*current_pid_tgid)(void) = (void *)14;
static __u64 (*socket_cookie)(void *ctx) = (void *)46;
static long (*set_option)(void *ctx, int level, int name, void *value, int len) = (void *)49;
static long (*set_flags)(struct bpf_sock_ops *ctx, int flags) = (void *)59;
static void *(*storage_of)(void *map, void *sk, void *value, __u64 flags) = (void *)107;
static long (*put_event)(void *ring, void *event, __u64 len, __u64 flags) = (void *)130;
static long (*load_option)(struct bpf_sock_ops *ctx, void *into, __u32 len, __u64 flags) = (void *)142;
static long (*store_option)(struct bpf_sock_ops *ctx, const void *from, __u32 len, __u64 flags) = (void *)143;
static long (*reserve_option)(struct bpf_sock_ops *ctx, __u32 len, __u64 flags) = (void *)144;

#define ALWAYS static inline __attribute__((always_inline))
#define SEC(name) __attribute__((section(name), used))
#define UINT(name, value) int(*name)[value]
#define TYPE(name, type) type *name

#define ENTRIES 1024 /* of a table */
#define PROBES 8
#define REFUSED_MOST 128
#define MAGIC 0xE2D4C3D9u /* "SMCR" in EBCDIC, RFC 7609 appendix A */
#define KIND 254
#define LENGTH 16
#define TCP_SAVE_SYN 27
#define SOL_TCP 6
#define SYN 0x02
#define ACK 0x10
#define CLOSED 7 /* of net/tcp_states.h */
#define INET 2   /* AF_INET */
#define RULES 128
#define WORDS (RULES / 64)
/* Reason codes of crates/wire/src/reason.rs. */
#define NOSMCDDEV 0x03030001
#define PEERNOSMC 0x03010000
#define MAX_DMB 0x030d0000
#define SYNCERR 0x04000000
#define PEERDECL 0x05000000

/* Of the number of a client (crates/ismd/src/tables.rs): it has answered since the daemon wrote it; it may take no
 * part for now. */
#define CONFIRMED 0x80000000u
#define SUSPENDED 0x40000000u
#define NUMBER 0x3fffffffu

enum { ASKED_CONNECT = 1, ASKED_LISTEN = 2, NO = 3, YES = 4, REFUSED = 5 };

struct entry { /* of a process's table */
	__u64 cookie; /* 0: free */
	__u32 state;
	__u32 peer; /* the client's number, for a server; why it is refused */
	__u64 intent[4]; /* the process's own, or its peer's */
	__u64 unused[2];
};
struct mark { /* of a token */
	__u64 cookie;
	__u64 intent[4];
	__u32 tgid, client, c_nxt, s_nxt, seen, client_ok, taken, unused;
};
struct kept { /* of a socket */
	__u64 token;
	__u32 tgid, is_active;
	__u32 is_refused, unused; /* counted in `refused` */
	__u64 since;              /* when its process asked */
};
/* crates/ismd/src/rights.rs writes these. Addresses are of version 6, or mapped; in network byte order. */
struct place {
	__u32 address[4], mask[4];
	__u16 low, high; /* ports */
};
struct rule {
	struct place client, server;
	__u32 is_allowed;
};
struct part { /* by one policy: rules whose client, whose server the process is */
	__u64 project; /* 0: none */
	__u64 client[WORDS], server[WORDS];
};
struct rights { /* of a process */
	__u32 uid, user_namespace, process_namespace, vchid;
	struct part by[2];
};
/* What has happened, for who traces: crates/ismd/src/trace.rs reads it. */
enum { OFFERED = 1, ANSWERED = 2, UNANSWERED = 3, TAKEN = 4, KEPT = 5 };
struct event {
	__u64 time, cookie; /* the client's socket's */
	__u32 kind, reason, pid, peer;
	__u32 own[4], other[4];
	__u16 own_port, other_port;
	__u32 unused;
};
struct option {
	__u8 kind, len;
	__u32 magic;
	__u16 flags;
	__u64 token;
} __attribute__((packed));

struct table {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(map_flags, BPF_F_MMAPABLE);
	UINT(max_entries, ENTRIES);
	UINT(key_size, 4);
	UINT(value_size, sizeof(struct entry));
};
struct {
	UINT(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	UINT(max_entries, 8192);
	TYPE(key, __u32);
	UINT(value_size, 4);
	UINT(pinning, 1);
	struct table *values[];
} tables SEC(".maps");
struct {
	UINT(type, BPF_MAP_TYPE_HASH);
	UINT(max_entries, 8192);
	TYPE(key, __u32);
	TYPE(value, __u32);
	UINT(pinning, 1);
} clients SEC(".maps");
struct {
	UINT(type, BPF_MAP_TYPE_LRU_HASH);
	UINT(max_entries, 65536);
	TYPE(key, __u64);
	TYPE(value, struct mark);
	UINT(pinning, 1);
} marks SEC(".maps");
struct {
	UINT(type, BPF_MAP_TYPE_SK_STORAGE);
	UINT(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	TYPE(key, int);
	TYPE(value, struct kept);
	UINT(pinning, 1);
} sockets SEC(".maps");

/* Two policies lie here: the one that counts, and room for the next one. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 2 * RULES);
	TYPE(key, __u32);
	TYPE(value, struct rule);
	UINT(pinning, 1);
} rules SEC(".maps");
struct {
	UINT(type, BPF_MAP_TYPE_HASH);
	UINT(max_entries, 8192);
	TYPE(key, __u32);
	TYPE(value, struct rights);
	UINT(pinning, 1);
} rights SEC(".maps");
/* Bit 0: which of them. Bit 1: one was written at all. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, __u32);
	UINT(pinning, 1);
} policy SEC(".maps");

/* How many of a process's sockets hold, or held, an entry that says why they are refused. */
struct {
	UINT(type, BPF_MAP_TYPE_HASH);
	UINT(max_entries, 8192);
	TYPE(key, __u32);
	TYPE(value, __u32);
	UINT(pinning, 1);
} refused SEC(".maps");

/* When a program last ended under a process id: a listener that is older was another one's. */
struct {
	UINT(type, BPF_MAP_TYPE_LRU_HASH);
	UINT(max_entries, 65536);
	TYPE(key, __u32);
	TYPE(value, __u64);
	UINT(pinning, 1);
} ends SEC(".maps");

/* Not 0 while somebody traces. */
struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, __u32);
	UINT(pinning, 1);
} tracing SEC(".maps");
struct {
	UINT(type, BPF_MAP_TYPE_RINGBUF);
	UINT(max_entries, 1 << 18);
	UINT(pinning, 1);
} events SEC(".maps");

ALWAYS struct entry *entry_at(void *table, __u64 at)
{
	__u32 index = at & (ENTRIES - 1);

	return map_lookup(table, &index);
}

ALWAYS struct entry *entry_of(__u32 tgid, __u64 cookie)
{
	void *table = map_lookup(&tables, &tgid);
	struct entry *entry;

	if (!table)
		return 0;
#pragma unroll
	for (int i = 0; i < PROBES; i++) {
		entry = entry_at(table, cookie + i);
		if (entry && entry->cookie == cookie)
			return entry;
	}
	return 0;
}

/* The number of the program that runs under this process id, if it may take part; else 0. */
ALWAYS __u32 number_of(__u32 tgid)
{
	__u32 *client = map_lookup(&clients, &tgid);

	return client && (*client & (CONFIRMED | SUSPENDED)) == CONFIRMED ? *client & NUMBER : 0;
}

/* An entry that was free; the process gives it back. */
ALWAYS struct entry *take_entry(__u32 tgid, __u64 cookie)
{
	void *table = map_lookup(&tables, &tgid);
	struct entry *entry;

	if (!table)
		return 0;
#pragma unroll
	for (int i = 0; i < PROBES; i++) {
		entry = entry_at(table, cookie + i);
		if (entry && !__sync_val_compare_and_swap(&entry->cookie, 0, cookie))
			return entry;
	}
	return 0;
}

/* An entry for what is refused. It stays until its socket is accepted or closed, and whoever is refused can let many
 * wait: they have a part of the table. */
ALWAYS struct entry *take_entry_of_refused(struct kept *kept, __u64 cookie)
{
	__u32 tgid = kept->tgid, none = 0, *count = map_lookup(&refused, &tgid);
	struct entry *entry;

	if (!count) {
		map_update(&refused, &tgid, &none, BPF_NOEXIST);
		count = map_lookup(&refused, &tgid);
	}
	if (!count || *count >= REFUSED_MOST)
		return 0;
	entry = take_entry(tgid, cookie);
	if (entry) {
		__sync_fetch_and_add(count, 1);
		kept->is_refused = 1;
	}
	return entry;
}

ALWAYS void end_refused(struct kept *kept)
{
	__u32 tgid = kept->tgid, *count = map_lookup(&refused, &tgid);

	if (kept->is_refused && count && *count)
		__sync_fetch_and_add(count, -1);
}

ALWAYS void answer(struct entry *entry, __u32 state)
{
	if (entry)
		*(volatile __u32 *)&entry->state = state;
}

ALWAYS void refuse(struct entry *entry, __u32 reason)
{
	if (entry) {
		*(volatile __u32 *)&entry->peer = reason;
		answer(entry, REFUSED);
	}
}

ALWAYS struct kept *kept_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return sk ? storage_of(&sockets, sk, 0, 0) : 0;
}

ALWAYS void on_connect(struct bpf_sock_ops *ctx, struct event *event)
{
	__u32 tgid = current_pid_tgid() >> 32;
	__u32 client = number_of(tgid);
	struct bpf_sock *sk = ctx->sk;
	struct mark mark = {};
	struct entry *entry;
	struct kept *kept;
	__u64 token;

	if (!client || !sk)
		return;
	mark.cookie = socket_cookie(ctx);
	entry = entry_of(tgid, mark.cookie);
	if (!entry || entry->state != ASKED_CONNECT)
		return;
	token = (__u64)prandom() << 32 | prandom();
	mark.tgid = tgid;
	mark.client = client;
	mark.intent[0] = entry->intent[0];
	mark.intent[1] = entry->intent[1];
	mark.intent[2] = entry->intent[2];
	mark.intent[3] = entry->intent[3];
	kept = storage_of(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!kept || !token || map_update(&marks, &token, &mark, BPF_NOEXIST)) {
		answer(entry, NO);
		return;
	}
	event->kind = OFFERED;
	event->cookie = mark.cookie;
	event->pid = tgid;
	kept->token = token;
	kept->tgid = tgid;
	kept->is_active = 1;
	set_flags(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG);
}

ALWAYS void on_listen(struct bpf_sock_ops *ctx)
{
	__u32 tgid = current_pid_tgid() >> 32;
	struct bpf_sock *sk = ctx->sk;
	struct entry *entry;
	struct kept *kept;
	int save = 2;

	if (!sk || !number_of(tgid))
		return;
	entry = entry_of(tgid, socket_cookie(ctx));
	if (!entry || entry->state != ASKED_LISTEN)
		return;
	kept = storage_of(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!kept || set_option(ctx, SOL_TCP, TCP_SAVE_SYN, &save, sizeof(save)))
		return;
	kept->tgid = tgid;
	kept->is_active = 0;
	kept->since = time_now();
	set_flags(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	answer(entry, YES);
}

ALWAYS int find_option(struct bpf_sock_ops *ctx, struct option *option, __u64 from)
{
	option->kind = KIND;
	option->len = 6;
	option->magic = __builtin_bswap32(MAGIC);
	return load_option(ctx, option, sizeof(*option), from) == LENGTH ? 0 : -1;
}

ALWAYS int wants_option(struct bpf_sock_ops *ctx, struct option *option)
{
	struct kept *kept;

	if (ctx->skb_tcp_flags == SYN) {
		kept = kept_of(ctx);
		option->token = kept && kept->is_active ? kept->token : 0;
		return option->token ? 0 : -1;
	}
	/* A syncookie remembers no option. */
	if ((ctx->skb_tcp_flags & (SYN | ACK)) != (SYN | ACK) || ctx->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE)
		return -1;
	return find_option(ctx, option, BPF_LOAD_HDR_OPT_TCP_SYN);
}

ALWAYS void on_length(struct bpf_sock_ops *ctx)
{
	struct option option = {};

	if (!wants_option(ctx, &option))
		reserve_option(ctx, LENGTH, 0);
}

ALWAYS void on_write(struct bpf_sock_ops *ctx)
{
	struct option option = {};
	struct mark *mark;
	__u64 token;

	if (wants_option(ctx, &option))
		return;
	token = option.token;
	if (ctx->skb_tcp_flags & ACK) {
		mark = map_lookup(&marks, &token);
		if (mark)
			mark->seen = 1;
	}
	option.kind = KIND;
	option.len = LENGTH;
	option.magic = __builtin_bswap32(MAGIC);
	option.flags = 0;
	store_option(ctx, &option, sizeof(option), 0);
}

ALWAYS void on_active(struct bpf_sock_ops *ctx, struct event *event)
{
	struct kept *kept = kept_of(ctx);
	struct option option = {};
	struct mark *mark;
	__u32 state = NO;
	__u64 token;

	if (!kept || !kept->is_active)
		return;
	set_flags(ctx, ctx->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	token = kept->token;
	mark = map_lookup(&marks, &token);
	if (mark && mark->seen && !find_option(ctx, &option, 0) && option.token == token) {
		mark->c_nxt = ctx->snd_una;
		mark->s_nxt = ctx->rcv_nxt;
		*(volatile __u32 *)&mark->client_ok = 1;
		state = YES;
	}
	event->kind = state == YES ? ANSWERED : UNANSWERED;
	event->reason = state == YES ? 0 : PEERNOSMC;
	event->cookie = socket_cookie(ctx);
	event->pid = kept->tgid;
	answer(entry_of(kept->tgid, event->cookie), state);
}

ALWAYS int is_at(const struct place *place, const __u32 *address, __u32 port)
{
	return port >= place->low && port <= place->high &&
	       !(((address[0] & place->mask[0]) ^ place->address[0]) | ((address[1] & place->mask[1]) ^ place->address[1]) |
		 ((address[2] & place->mask[2]) ^ place->address[2]) | ((address[3] & place->mask[3]) ^ place->address[3]));
}

/* The addresses of a connection as its server has them: its own first. */
ALWAYS void see_addresses(struct bpf_sock_ops *ctx, __u32 *own, __u32 *peer)
{
	if (ctx->family == INET) {
		own[0] = own[1] = peer[0] = peer[1] = 0;
		own[2] = peer[2] = __builtin_bswap32(0xFFFF);
		own[3] = ctx->local_ip4;
		peer[3] = ctx->remote_ip4;
		/* (Or this load and the other branch's become one, of an address that the verifier does not know.) */
		__asm__ volatile("");
		return;
	}
	own[0] = ctx->local_ip6[0];
	own[1] = ctx->local_ip6[1];
	own[2] = ctx->local_ip6[2];
	own[3] = ctx->local_ip6[3];
	peer[0] = ctx->remote_ip6[0];
	peer[1] = ctx->remote_ip6[1];
	peer[2] = ctx->remote_ip6[2];
	peer[3] = ctx->remote_ip6[3];
}

/* Why these two may not share memory over this connection, or 0. The first rule that fits decides. */
ALWAYS __u32 refusal(struct bpf_sock_ops *ctx, __u32 client, __u32 server)
{
	__u32 zero = 0, own[4], peer[4], index, half, *current = map_lookup(&policy, &zero);
	__u32 own_port = ctx->local_port, peer_port = __builtin_bswap32(ctx->remote_port);
	struct rights *from, *to;
	struct part *has, *serves;
	struct rule *rule;
	__u64 both;

	if (!current || !(*current & 2))
		return 0;
	half = *current & 1;
	from = map_lookup(&rights, &client);
	to = map_lookup(&rights, &server);
	if (!from || !to)
		return PEERDECL;
	if (from->vchid != to->vchid)
		return NOSMCDDEV;
	has = half ? &from->by[1] : &from->by[0];
	serves = half ? &to->by[1] : &to->by[0];
	see_addresses(ctx, own, peer);
#pragma unroll
	for (int word = 0; word < WORDS; word++) {
		both = has->client[word] & serves->server[word];
		for (int bit = 0; bit < 64 && both; bit++, both >>= 1) {
			if (!(both & 1))
				continue;
			index = half * RULES + word * 64 + bit;
			rule = map_lookup(&rules, &index);
			if (rule && is_at(&rule->server, own, own_port) && is_at(&rule->client, peer, peer_port))
				return rule->is_allowed ? 0 : PEERDECL;
		}
	}
	if (from->uid == to->uid && from->user_namespace == to->user_namespace &&
	    from->process_namespace == to->process_namespace)
		return 0;
	return has->project && has->project == serves->project ? 0 : PEERDECL;
}

/* Whether both ends are the programs still that asked for this. */
ALWAYS int are_the_same(const struct kept *kept, const struct mark *mark)
{
	__u32 server = kept->tgid;
	__u64 *end = map_lookup(&ends, &server);

	return number_of(server) && number_of(mark->tgid) == mark->client && !(end && *end >= kept->since);
}

ALWAYS void on_passive(struct bpf_sock_ops *ctx, struct event *event)
{
	struct kept *kept = kept_of(ctx);
	struct option option = {};
	struct entry *entry;
	struct mark *mark;
	__u32 tgid, reason;
	int is_of_both;
	__u64 token;

	if (!kept)
		return;
	set_flags(ctx, ctx->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	if (kept->is_active) {
		/* Simultaneous open, or a connection to itself. */
		answer(entry_of(kept->tgid, socket_cookie(ctx)), NO);
		return;
	}
	if (find_option(ctx, &option, BPF_LOAD_HDR_OPT_TCP_SYN))
		return;
	token = option.token;
	tgid = kept->tgid;
	event->kind = KEPT;
	event->reason = SYNCERR;
	event->pid = tgid;
	mark = map_lookup(&marks, &token);
	if (!mark || !mark->client_ok || mark->c_nxt != ctx->rcv_nxt || mark->s_nxt != ctx->snd_una ||
	    __sync_val_compare_and_swap(&mark->taken, 0, 1))
		return;
	event->cookie = mark->cookie;
	event->peer = mark->tgid;
	set_flags(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	is_of_both = are_the_same(kept, mark);
	reason = is_of_both ? refusal(ctx, mark->tgid, tgid) : 0;
	entry = reason || !is_of_both ? 0 : take_entry(tgid, socket_cookie(ctx));
	if (!entry) {
		/* Nobody is there, or may be, to take it up: the client is not to wait. Neither is told where the
		 * other's memory is, and both are told why. */
		event->reason = reason ? reason : MAX_DMB;
		refuse(reason ? take_entry_of_refused(kept, socket_cookie(ctx)) : 0, reason);
		refuse(entry_of(mark->tgid, mark->cookie), event->reason);
		return;
	}
	entry->peer = mark->client;
	entry->intent[0] = mark->intent[0];
	entry->intent[1] = mark->intent[1];
	entry->intent[2] = mark->intent[2];
	entry->intent[3] = mark->intent[3];
	event->kind = TAKEN;
	event->reason = 0;
	answer(entry, YES);
}

/* The socket is gone: so is what was said of it, whoever forgot to give it back. */
ALWAYS void on_closed(struct bpf_sock_ops *ctx)
{
	struct kept *kept = kept_of(ctx);
	struct entry *entry;
	__u64 token;

	if (!kept)
		return;
	token = kept->token;
	if (kept->is_active)
		map_delete(&marks, &token);
	end_refused(kept);
	entry = entry_of(kept->tgid, socket_cookie(ctx));
	if (entry) {
		*(volatile __u32 *)&entry->state = 0;
		*(volatile __u64 *)&entry->cookie = 0;
	}
}

ALWAYS void tell(struct bpf_sock_ops *ctx, struct event *event)
{
	__u32 zero = 0, *is_traced = map_lookup(&tracing, &zero);

	if (!is_traced || !*is_traced)
		return;
	event->time = time_now();
	see_addresses(ctx, event->own, event->other);
	event->own_port = ctx->local_port;
	event->other_port = __builtin_bswap32(ctx->remote_port);
	put_event(&events, event, sizeof(*event), 0);
}

SEC("sockops")
int isthmus_mark(struct bpf_sock_ops *ctx)
{
	struct event event = {};

	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		on_connect(ctx, &event);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_listen(ctx);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		on_length(ctx);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		on_write(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		on_active(ctx, &event);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_passive(ctx, &event);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ctx->args[1] == CLOSED)
			on_closed(ctx);
		break;
	}
	if (event.kind)
		tell(ctx, &event);
	return 1;
}

/* Another program runs under this process id, which may be another user's (set-uid), or none does. */
ALWAYS void forget(__u32 tgid)
{
	__u64 now = time_now();

	map_update(&ends, &tgid, &now, BPF_ANY);
	map_delete(&clients, &tgid);
	map_delete(&rights, &tgid);
	map_delete(&refused, &tgid);
}

SEC("raw_tracepoint/sched_process_exec")
int isthmus_exec(void *ctx)
{
	forget(current_pid_tgid() >> 32);
	return 0;
}

/* (The number is given to nobody else before all threads have ended, of which the first one is known by it.) */
SEC("raw_tracepoint/sched_process_exit")
int isthmus_exit(void *ctx)
{
	__u64 id = current_pid_tgid();

	if ((__u32)id == id >> 32)
		forget(id >> 32);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
