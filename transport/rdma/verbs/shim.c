//go:build linux && cgo

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim.h"

// lib holds the functions that libibverbs exports; dlsym gives their newest version.
static struct {
	struct bv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct bv_device **list);
	struct bv_context *(*open_device)(struct bv_device *device);
	int (*close_device)(struct bv_context *ctx);
	int (*query_device)(struct bv_context *ctx, struct bv_device_attr *attr);
	int (*query_port)(struct bv_context *ctx, uint8_t port, struct bv_port_attr *attr);
	int (*query_gid)(struct bv_context *ctx, uint8_t port, int index, uint8_t *gid);
	struct bv_pd *(*alloc_pd)(struct bv_context *ctx);
	int (*dealloc_pd)(struct bv_pd *pd);
	struct bv_mr *(*reg_mr)(struct bv_pd *pd, void *addr, size_t length, int access);
	int (*dereg_mr)(struct bv_mr *mr);
	struct bv_comp_channel *(*create_comp_channel)(struct bv_context *ctx);
	int (*destroy_comp_channel)(struct bv_comp_channel *channel);
	struct bv_cq *(*create_cq)(struct bv_context *ctx, int cqe, void *cq_context, struct bv_comp_channel *channel,
				   int vector);
	int (*destroy_cq)(struct bv_cq *cq);
	int (*get_cq_event)(struct bv_comp_channel *channel, struct bv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct bv_cq *cq, unsigned int n);
	struct bv_srq *(*create_srq)(struct bv_pd *pd, struct bv_srq_init_attr *attr);
	int (*modify_srq)(struct bv_srq *srq, struct bv_srq_attr *attr, int mask);
	int (*destroy_srq)(struct bv_srq *srq);
	struct bv_qp *(*create_qp)(struct bv_pd *pd, struct bv_qp_init_attr *attr);
	int (*modify_qp)(struct bv_qp *qp, struct bv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct bv_qp *qp);
	int (*get_async_event)(struct bv_context *ctx, struct bv_async_event *event);
	void (*ack_async_event)(struct bv_async_event *event);
} lib;

// why keeps what the dynamic loader said: its own memory belongs to the thread.
static const char *why(void *handle) {
	static char text[512];
	const char *said = dlerror();
	snprintf(text, sizeof text, "%s", said ? said : "no reason given");
	if (handle)
		dlclose(handle);
	return text;
}

const char *bv_load(const char *library) {
	static const struct {
		const char *name;
		void *to;
	} symbols[] = {
		{"ibv_get_device_list", &lib.get_device_list},
		{"ibv_free_device_list", &lib.free_device_list},
		{"ibv_open_device", &lib.open_device},
		{"ibv_close_device", &lib.close_device},
		{"ibv_query_device", &lib.query_device},
		{"ibv_query_port", &lib.query_port},
		{"ibv_query_gid", &lib.query_gid},
		{"ibv_alloc_pd", &lib.alloc_pd},
		{"ibv_dealloc_pd", &lib.dealloc_pd},
		{"ibv_reg_mr", &lib.reg_mr},
		{"ibv_dereg_mr", &lib.dereg_mr},
		{"ibv_create_comp_channel", &lib.create_comp_channel},
		{"ibv_destroy_comp_channel", &lib.destroy_comp_channel},
		{"ibv_create_cq", &lib.create_cq},
		{"ibv_destroy_cq", &lib.destroy_cq},
		{"ibv_get_cq_event", &lib.get_cq_event},
		{"ibv_ack_cq_events", &lib.ack_cq_events},
		{"ibv_create_srq", &lib.create_srq},
		{"ibv_modify_srq", &lib.modify_srq},
		{"ibv_destroy_srq", &lib.destroy_srq},
		{"ibv_create_qp", &lib.create_qp},
		{"ibv_modify_qp", &lib.modify_qp},
		{"ibv_destroy_qp", &lib.destroy_qp},
		{"ibv_get_async_event", &lib.get_async_event},
		{"ibv_ack_async_event", &lib.ack_async_event},
	};
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return why(NULL);
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		void *f = dlsym(handle, symbols[i].name);
		if (!f)
			return why(handle);
		memcpy(symbols[i].to, &f, sizeof f);
	}
	return NULL;
}

// failed makes what a verb returns (0, errno, or -1 with errno) one form.
static int failed(int result) {
	if (result == 0)
		return 0;
	if (result > 0)
		return -result;
	return errno ? -errno : -EIO;
}

#define OR_ERROR(pointer) \
	do { \
		errno = 0; \
		void *p_ = (pointer); \
		*error = p_ ? 0 : (errno ? errno : EIO); \
		return p_; \
	} while (0)

int bv_devices(char *names) {
	int count = 0, n = 0;
	errno = 0;
	struct bv_device **list = lib.get_device_list(&count);
	if (!list)
		return errno ? -errno : -EIO;
	for (int i = 0; i < count && n < BV_MAX_NAMES; i++) {
		if (list[i]->transport_type != BV_TRANSPORT_IB)
			continue;
		memcpy(names + n * BV_NAME, list[i]->name, BV_NAME);
		names[n * BV_NAME + BV_NAME - 1] = 0;
		n++;
	}
	lib.free_device_list(list);
	return n;
}

struct bv_context *bv_open(const char *name, int *error) {
	int count = 0;
	struct bv_context *ctx = NULL;
	errno = 0;
	*error = ENODEV;
	struct bv_device **list = lib.get_device_list(&count);
	if (!list) {
		*error = errno ? errno : EIO;
		return NULL;
	}
	for (int i = 0; i < count; i++) {
		if (strncmp(list[i]->name, name, BV_NAME) != 0)
			continue;
		errno = 0;
		ctx = lib.open_device(list[i]);
		*error = ctx ? 0 : (errno ? errno : EIO);
		break;
	}
	lib.free_device_list(list);
	return ctx;
}

int bv_close(struct bv_context *ctx) { return failed(lib.close_device(ctx)); }

int bv_query_device(struct bv_context *ctx, struct bv_device_attr *attr) {
	memset(attr, 0, sizeof *attr);
	return failed(lib.query_device(ctx, attr));
}

int bv_query_port(struct bv_context *ctx, int port, struct bv_port_attr *attr) {
	// The exported function fills everything up to flags; what it leaves out must be zero.
	memset(attr, 0, sizeof *attr);
	return failed(lib.query_port(ctx, (uint8_t)port, attr));
}

int bv_query_gid(struct bv_context *ctx, int port, int index, uint8_t *gid) {
	return failed(lib.query_gid(ctx, (uint8_t)port, index, gid));
}

struct bv_pd *bv_alloc_pd(struct bv_context *ctx, int *error) { OR_ERROR(lib.alloc_pd(ctx)); }
int bv_dealloc_pd(struct bv_pd *pd) { return failed(lib.dealloc_pd(pd)); }

struct bv_mr *bv_reg_mr(struct bv_pd *pd, void *addr, size_t length, int access, int *error) {
	OR_ERROR(lib.reg_mr(pd, addr, length, access));
}

int bv_dereg_mr(struct bv_mr *mr) { return failed(lib.dereg_mr(mr)); }

struct bv_mw *bv_alloc_mw(struct bv_pd *pd, int *error) {
	struct bv_context *ctx = *(struct bv_context **)pd; // a protection domain begins with its context
	if (!ctx->ops.alloc_mw) {
		*error = EOPNOTSUPP;
		return NULL;
	}
	OR_ERROR(ctx->ops.alloc_mw(pd, BV_MW_TYPE_2));
}

int bv_dealloc_mw(struct bv_mw *mw) { return failed(mw->context->ops.dealloc_mw(mw)); }

struct bv_comp_channel *bv_create_channel(struct bv_context *ctx, int *error) {
	OR_ERROR(lib.create_comp_channel(ctx));
}

int bv_destroy_channel(struct bv_comp_channel *channel) { return failed(lib.destroy_comp_channel(channel)); }

struct bv_cq *bv_create_cq(struct bv_context *ctx, int depth, struct bv_comp_channel *channel, int *error) {
	OR_ERROR(lib.create_cq(ctx, depth, NULL, channel, 0));
}

int bv_destroy_cq(struct bv_cq *cq) { return failed(lib.destroy_cq(cq)); }

struct bv_srq *bv_create_srq(struct bv_pd *pd, int depth, int *error) {
	struct bv_srq_init_attr attr = {.attr = {.max_wr = (uint32_t)depth, .max_sge = 1}};
	OR_ERROR(lib.create_srq(pd, &attr));
}

int bv_limit_srq(struct bv_srq *srq, int limit) {
	struct bv_srq_attr attr = {.srq_limit = (uint32_t)limit};
	return failed(lib.modify_srq(srq, &attr, BV_SRQ_LIMIT));
}

int bv_destroy_srq(struct bv_srq *srq) { return failed(lib.destroy_srq(srq)); }

struct bv_qp *bv_create_qp(struct bv_pd *pd, struct bv_cq *cq, struct bv_srq *srq, int depth, int *inline_bytes,
			   int *error) {
	struct bv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = BV_QPT_RC,
		.cap = {.max_send_wr = (uint32_t)depth,
			.max_send_sge = 1,
			.max_recv_wr = srq ? 0 : 1,
			.max_recv_sge = srq ? 0 : 1,
			.max_inline_data = (uint32_t)*inline_bytes},
	};
	errno = 0;
	struct bv_qp *qp = lib.create_qp(pd, &attr);
	*error = qp ? 0 : (errno ? errno : EIO);
	*inline_bytes = (int)attr.cap.max_inline_data;
	return qp;
}

int bv_reset_qp(struct bv_qp *qp) {
	struct bv_qp_attr attr = {.qp_state = BV_QPS_RESET};
	return failed(lib.modify_qp(qp, &attr, BV_QP_STATE));
}

int bv_init_qp(struct bv_qp *qp, int port, int access) {
	struct bv_qp_attr attr = {.qp_state = BV_QPS_INIT, .port_num = (uint8_t)port, .qp_access_flags = (unsigned)access};
	return failed(lib.modify_qp(qp, &attr, BV_QP_STATE | BV_QP_PKEY_INDEX | BV_QP_PORT | BV_QP_ACCESS_FLAGS));
}

int bv_connect_qp(struct bv_qp *qp, const struct bv_route *r, int *step) {
	struct bv_qp_attr rtr = {
		.qp_state = BV_QPS_RTR,
		.path_mtu = r->mtu,
		.dest_qp_num = r->qp,
		.rq_psn = r->rq_psn,
		.max_dest_rd_atomic = r->reads_in,
		.min_rnr_timer = r->min_rnr_timer,
		.ah_attr = {.dlid = r->lid, .sl = r->service_level, .is_global = r->global, .port_num = r->port},
	};
	if (r->global) {
		memcpy(rtr.ah_attr.grh.dgid.raw, r->gid, sizeof r->gid);
		rtr.ah_attr.grh.sgid_index = r->gid_index;
		rtr.ah_attr.grh.hop_limit = r->hop_limit;
		rtr.ah_attr.grh.traffic_class = r->traffic_class;
	}
	*step = BV_QPS_RTR;
	int result = failed(lib.modify_qp(qp, &rtr,
					  BV_QP_STATE | BV_QP_AV | BV_QP_PATH_MTU | BV_QP_DEST_QPN | BV_QP_RQ_PSN |
						  BV_QP_MAX_DEST_RD_ATOMIC | BV_QP_MIN_RNR_TIMER));
	if (result)
		return result;
	struct bv_qp_attr rts = {
		.qp_state = BV_QPS_RTS,
		.sq_psn = r->sq_psn,
		.timeout = r->timeout,
		.retry_cnt = r->retry,
		.rnr_retry = r->rnr_retry,
		.max_rd_atomic = r->reads_out,
	};
	*step = BV_QPS_RTS;
	return failed(lib.modify_qp(qp, &rts,
				    BV_QP_STATE | BV_QP_TIMEOUT | BV_QP_RETRY_CNT | BV_QP_RNR_RETRY | BV_QP_SQ_PSN |
					    BV_QP_MAX_QP_RD_ATOMIC));
}

int bv_break_qp(struct bv_qp *qp) {
	struct bv_qp_attr attr = {.qp_state = BV_QPS_ERR};
	return failed(lib.modify_qp(qp, &attr, BV_QP_STATE));
}

int bv_destroy_qp(struct bv_qp *qp) { return failed(lib.destroy_qp(qp)); }

int bv_bind(struct bv_qp *qp, uint64_t id, struct bv_mw *mw, uint32_t rkey, struct bv_mr *mr, uint64_t addr,
	    uint64_t length, uint32_t access) {
	struct bv_send_wr wr = {
		.wr_id = id,
		.opcode = BV_WR_BIND_MW,
		.send_flags = BV_SEND_SIGNALED,
		.bind_mw = {.mw = mw,
			    .rkey = rkey,
			    .bind_info = {.mr = mr, .addr = addr, .length = length, .mw_access_flags = access}},
	};
	struct bv_send_wr *bad = NULL;
	return failed(qp->context->ops.post_send(qp, &wr, &bad));
}

int bv_post(struct bv_qp *qp, const struct bv_wr *in, int n, int *taken) {
	struct bv_send_wr wrs[BV_BATCH];
	struct bv_sge sges[BV_BATCH];
	for (int i = 0; i < n; i++) {
		sges[i] = (struct bv_sge){.addr = in[i].local, .length = in[i].bytes, .lkey = in[i].lkey};
		struct bv_send_wr *wr = &wrs[i];
		wr->wr_id = in[i].id;
		wr->next = i + 1 < n ? wr + 1 : NULL;
		wr->sg_list = &sges[i];
		wr->num_sge = in[i].bytes ? 1 : 0;
		wr->opcode = in[i].opcode;
		wr->send_flags = in[i].flags;
		wr->imm_data = htonl(in[i].imm);
		wr->wr.rdma.remote_addr = in[i].remote;
		wr->wr.rdma.rkey = in[i].rkey;
	}
	struct bv_send_wr *bad = NULL;
	int result = failed(qp->context->ops.post_send(qp, wrs, &bad));
	*taken = result == 0 ? n : (bad >= wrs && bad < wrs + n ? (int)(bad - wrs) : 0);
	return result;
}

int bv_post_srq(struct bv_srq *srq, const struct bv_entry *in, int n, int *taken) {
	struct bv_recv_wr wrs[BV_BATCH];
	struct bv_sge sges[BV_BATCH];
	for (int i = 0; i < n; i++) {
		sges[i] = (struct bv_sge){.addr = in[i].local, .length = in[i].bytes, .lkey = in[i].lkey};
		wrs[i] = (struct bv_recv_wr){
			.wr_id = in[i].id,
			.next = i + 1 < n ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = in[i].bytes ? 1 : 0,
		};
	}
	struct bv_recv_wr *bad = NULL;
	int result = failed(srq->context->ops.post_srq_recv(srq, wrs, &bad));
	*taken = result == 0 ? n : (bad >= wrs && bad < wrs + n ? (int)(bad - wrs) : 0);
	return result;
}

int bv_poll(struct bv_cq *cq, struct bv_done *out, int n) {
	struct bv_wc wcs[BV_BATCH];
	int got = cq->context->ops.poll_cq(cq, n, wcs);
	if (got < 0)
		return -EIO;
	for (int i = 0; i < got; i++) {
		out[i] = (struct bv_done){
			.id = wcs[i].wr_id,
			.status = wcs[i].status,
			.opcode = wcs[i].opcode,
			.bytes = wcs[i].byte_len,
			.imm = ntohl(wcs[i].imm_data),
			.qp = wcs[i].qp_num,
			.vendor = wcs[i].vendor_err,
		};
	}
	return got;
}

int bv_arm(struct bv_cq *cq) { return failed(cq->context->ops.req_notify_cq(cq, 0)); }

int bv_take_events(struct bv_comp_channel *channel, struct bv_cq *cq) {
	unsigned int n = 0;
	struct bv_cq *of;
	void *context;
	int error = 0;
	while (error == 0 || error == EINTR) { // until EAGAIN: Go's poller reports edges
		if (lib.get_cq_event(channel, &of, &context) == 0)
			n++;
		else
			error = errno ? errno : EIO;
	}
	if (n > 0)
		lib.ack_cq_events(cq, n);
	else if (error != EAGAIN)
		return -error;
	return (int)n;
}

int bv_next_event(struct bv_context *ctx, struct bv_happened *out) {
	struct bv_async_event event;
	errno = 0;
	if (lib.get_async_event(ctx, &event) != 0)
		return errno ? -errno : -EIO;
	*out = (struct bv_happened){.type = event.event_type};
	switch (event.event_type) {
	case BV_EVENT_QP_FATAL:
	case BV_EVENT_QP_REQ_ERR:
	case BV_EVENT_QP_ACCESS_ERR:
	case BV_EVENT_QP_LAST_WQE_REACHED:
		out->qp = event.element.qp->qp_num; // it lives: destroy_qp waits for the acknowledgement
		break;
	case BV_EVENT_PORT_ERR:
	case BV_EVENT_LID_CHANGE:
	case BV_EVENT_GID_CHANGE:
		out->port = event.element.port_num;
		break;
	}
	lib.ack_async_event(&event);
	return 0;
}
