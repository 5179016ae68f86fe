// Calls into libibverbs, loaded at run time. What crosses from Go is flat and free of pointers into Go's memory; the
// functions of the data path take a batch each.
#ifndef BORNODE_VERBS_SHIM_H
#define BORNODE_VERBS_SHIM_H

#include "verbs_abi.h"

enum {
	BV_BATCH = 64,    // requests or completions in one call
	BV_NAME = 64,     // bytes of a device name with its end
	BV_MAX_NAMES = 64 // devices looked at
};

// bv_wr is a request of the send queue.
struct bv_wr {
	uint64_t id;
	uint64_t local;
	uint64_t remote;
	uint32_t bytes;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t imm; // host order
	int32_t opcode;
	uint32_t flags;
};

// bv_entry is an entry of a shared receive queue.
struct bv_entry {
	uint64_t id;
	uint64_t local;
	uint32_t bytes;
	uint32_t lkey;
};

// bv_done is a completion.
struct bv_done {
	uint64_t id;
	int32_t status;
	int32_t opcode;
	uint32_t bytes;
	uint32_t imm; // host order
	uint32_t qp;
	uint32_t vendor; // the driver's own error code
};

// bv_happened is an asynchronous event; qp is 0 where the event is of no queue pair, port where it is of no port.
struct bv_happened {
	int32_t type;
	uint32_t qp;
	int32_t port;
};

// bv_route is what one modify_qp from INIT to RTS needs beyond constants.
struct bv_route {
	uint8_t gid[16];
	uint32_t qp;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint16_t lid;
	uint8_t global; // use the GID
	uint8_t gid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t service_level;
	uint8_t port;
	uint8_t mtu; // the verbs' code: 1 is 256, 5 is 4096 bytes
	uint8_t reads_out;
	uint8_t reads_in;
	uint8_t min_rnr_timer;
	uint8_t timeout;
	uint8_t retry;
	uint8_t rnr_retry;
};

// Functions that return int give 0 or more, or -errno; those that return a pointer give NULL and set *error to errno.
// bv_load loads the library; it gives NULL, or what dlopen or dlsym said. One at a time.
const char *bv_load(const char *library);
int bv_devices(char *names);
struct bv_context *bv_open(const char *name, int *error);
int bv_close(struct bv_context *ctx);
int bv_query_device(struct bv_context *ctx, struct bv_device_attr *attr);
int bv_query_port(struct bv_context *ctx, int port, struct bv_port_attr *attr);
int bv_query_gid(struct bv_context *ctx, int port, int index, uint8_t *gid);

struct bv_pd *bv_alloc_pd(struct bv_context *ctx, int *error);
int bv_dealloc_pd(struct bv_pd *pd);
struct bv_mr *bv_reg_mr(struct bv_pd *pd, void *addr, size_t length, int access, int *error);
int bv_dereg_mr(struct bv_mr *mr);
struct bv_mw *bv_alloc_mw(struct bv_pd *pd, int *error);
int bv_dealloc_mw(struct bv_mw *mw);

struct bv_comp_channel *bv_create_channel(struct bv_context *ctx, int *error);
int bv_destroy_channel(struct bv_comp_channel *channel);
struct bv_cq *bv_create_cq(struct bv_context *ctx, int depth, struct bv_comp_channel *channel, int *error);
int bv_destroy_cq(struct bv_cq *cq);
struct bv_srq *bv_create_srq(struct bv_pd *pd, int depth, int *error);
int bv_limit_srq(struct bv_srq *srq, int limit);
int bv_destroy_srq(struct bv_srq *srq);
// bv_create_qp: *inline_bytes is what is asked for, then what is given.
struct bv_qp *bv_create_qp(struct bv_pd *pd, struct bv_cq *cq, struct bv_srq *srq, int depth, int *inline_bytes,
			   int *error);
int bv_reset_qp(struct bv_qp *qp);
int bv_init_qp(struct bv_qp *qp, int port, int access);
// bv_connect_qp takes a queue pair from INIT to RTR and RTS; *step says how far it came.
int bv_connect_qp(struct bv_qp *qp, const struct bv_route *route, int *step);
int bv_break_qp(struct bv_qp *qp);
int bv_destroy_qp(struct bv_qp *qp);

// bv_bind posts the bind of a memory window with the given key.
int bv_bind(struct bv_qp *qp, uint64_t id, struct bv_mw *mw, uint32_t rkey, struct bv_mr *mr, uint64_t addr,
	    uint64_t length, uint32_t access);
// bv_post posts n <= BV_BATCH requests; *taken is how many were taken even when it fails.
int bv_post(struct bv_qp *qp, const struct bv_wr *wrs, int n, int *taken);
int bv_post_srq(struct bv_srq *srq, const struct bv_entry *entries, int n, int *taken);
// bv_poll takes up to n <= BV_BATCH completions.
int bv_poll(struct bv_cq *cq, struct bv_done *out, int n);
int bv_arm(struct bv_cq *cq);
// bv_take_events takes and acknowledges every event of the channel, which belongs to one completion queue and does not
// block, and returns their number.
int bv_take_events(struct bv_comp_channel *channel, struct bv_cq *cq);
// bv_next_event takes and acknowledges one asynchronous event; -EAGAIN when there is none.
int bv_next_event(struct bv_context *ctx, struct bv_happened *out);

#endif
