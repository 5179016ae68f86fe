// The part of libibverbs' stable binary interface (version 1.1 of its symbols) that this package uses, in names of its
// own, so that the program builds where no header of libibverbs is installed. testdata/layout.c compares it with the
// real header. Fields that nothing here reads keep their place only.
#ifndef BORNODE_VERBS_ABI_H
#define BORNODE_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BV_NODE_CA = 1,
	BV_TRANSPORT_IB = 0,

	BV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,

	BV_PORT_ACTIVE = 4,
	BV_LINK_LAYER_INFINIBAND = 1,
	BV_LINK_LAYER_ETHERNET = 2,
	BV_QPF_GRH_REQUIRED = 1,

	BV_ACCESS_LOCAL_WRITE = 1,
	BV_ACCESS_REMOTE_WRITE = 1 << 1,
	BV_ACCESS_REMOTE_READ = 1 << 2,
	BV_ACCESS_MW_BIND = 1 << 4,

	BV_MW_TYPE_2 = 2,
	BV_QPT_RC = 2,
	BV_SRQ_LIMIT = 1 << 1,

	BV_QPS_RESET = 0,
	BV_QPS_INIT = 1,
	BV_QPS_RTR = 2,
	BV_QPS_RTS = 3,
	BV_QPS_ERR = 6,

	BV_QP_STATE = 1 << 0,
	BV_QP_ACCESS_FLAGS = 1 << 3,
	BV_QP_PKEY_INDEX = 1 << 4,
	BV_QP_PORT = 1 << 5,
	BV_QP_AV = 1 << 7,
	BV_QP_PATH_MTU = 1 << 8,
	BV_QP_TIMEOUT = 1 << 9,
	BV_QP_RETRY_CNT = 1 << 10,
	BV_QP_RNR_RETRY = 1 << 11,
	BV_QP_RQ_PSN = 1 << 12,
	BV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	BV_QP_MIN_RNR_TIMER = 1 << 15,
	BV_QP_SQ_PSN = 1 << 16,
	BV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	BV_QP_DEST_QPN = 1 << 20,

	BV_WR_RDMA_WRITE = 0,
	BV_WR_RDMA_WRITE_WITH_IMM = 1,
	BV_WR_SEND = 2,
	BV_WR_RDMA_READ = 4,
	BV_WR_BIND_MW = 8,

	BV_SEND_SIGNALED = 1 << 1,
	BV_SEND_INLINE = 1 << 3,

	BV_WC_SUCCESS = 0,
	BV_WC_LOC_LEN_ERR = 1,
	BV_WC_LOC_QP_OP_ERR = 2,
	BV_WC_LOC_PROT_ERR = 4,
	BV_WC_WR_FLUSH_ERR = 5,
	BV_WC_MW_BIND_ERR = 6,
	BV_WC_LOC_ACCESS_ERR = 8,
	BV_WC_REM_INV_REQ_ERR = 9,
	BV_WC_REM_ACCESS_ERR = 10,
	BV_WC_RETRY_EXC_ERR = 12,
	BV_WC_RNR_RETRY_EXC_ERR = 13,
	BV_WC_RESP_TIMEOUT_ERR = 20,

	BV_WC_RECV = 128,
	BV_WC_RECV_RDMA_WITH_IMM = 129,

	BV_EVENT_CQ_ERR = 0,
	BV_EVENT_QP_FATAL = 1,
	BV_EVENT_QP_REQ_ERR = 2,
	BV_EVENT_QP_ACCESS_ERR = 3,
	BV_EVENT_DEVICE_FATAL = 8,
	BV_EVENT_PORT_ERR = 10,
	BV_EVENT_LID_CHANGE = 11,
	BV_EVENT_SRQ_ERR = 14,
	BV_EVENT_SRQ_LIMIT_REACHED = 15,
	BV_EVENT_QP_LAST_WQE_REACHED = 16,
	BV_EVENT_GID_CHANGE = 18,
};

struct bv_context;
struct bv_pd;
struct bv_mr;
struct bv_mw;
struct bv_cq;
struct bv_qp;
struct bv_srq;
struct bv_wc;
struct bv_send_wr;
struct bv_recv_wr;

struct bv_device {
	void *unused_ops[2];
	int32_t node_type;
	int32_t transport_type;
	char name[64];
	char dev_name[64];
	char dev_path[256];
	char ibdev_path[256];
};

typedef void *(*bv_unused_op)(void);

struct bv_context_ops {
	bv_unused_op unused0[7];
	struct bv_mw *(*alloc_mw)(struct bv_pd *pd, int type);
	bv_unused_op unused1[1];
	int (*dealloc_mw)(struct bv_mw *mw);
	bv_unused_op unused2[1];
	int (*poll_cq)(struct bv_cq *cq, int n, struct bv_wc *wc);
	int (*req_notify_cq)(struct bv_cq *cq, int solicited_only);
	bv_unused_op unused3[7];
	int (*post_srq_recv)(struct bv_srq *srq, struct bv_recv_wr *wr, struct bv_recv_wr **bad);
	bv_unused_op unused4[4];
	int (*post_send)(struct bv_qp *qp, struct bv_send_wr *wr, struct bv_send_wr **bad);
	bv_unused_op unused5[6];
};

struct bv_context {
	struct bv_device *device;
	struct bv_context_ops ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat;
};

struct bv_device_attr {
	char fw_ver[64];
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	int atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
};

struct bv_port_attr {
	int state;
	int max_mtu;
	int active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer;
	uint8_t flags;
	uint16_t port_cap_flags2;
};

struct bv_mr {
	struct bv_context *context;
	struct bv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct bv_mw {
	struct bv_context *context;
	struct bv_pd *pd;
	uint32_t rkey;
	uint32_t handle;
	int type;
};

struct bv_mw_bind_info {
	struct bv_mr *mr;
	uint64_t addr;
	uint64_t length;
	unsigned int mw_access_flags;
};

struct bv_comp_channel {
	struct bv_context *context;
	int fd;
	int refcnt;
};

struct bv_cq {
	struct bv_context *context;
	struct bv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

struct bv_srq {
	struct bv_context *context;
	void *srq_context;
	struct bv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct bv_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit;
};

struct bv_srq_init_attr {
	void *srq_context;
	struct bv_srq_attr attr;
};

struct bv_qp {
	struct bv_context *context;
	void *qp_context;
	struct bv_pd *pd;
	struct bv_cq *send_cq;
	struct bv_cq *recv_cq;
	struct bv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	int state;
	int qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct bv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct bv_qp_init_attr {
	void *qp_context;
	struct bv_cq *send_cq;
	struct bv_cq *recv_cq;
	struct bv_srq *srq;
	struct bv_qp_cap cap;
	int qp_type;
	int sq_sig_all;
};

struct bv_global_route {
	union {
		uint8_t raw[16];
		uint64_t word[2];
	} dgid;
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
};

struct bv_ah_attr {
	struct bv_global_route grh;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
};

struct bv_qp_attr {
	int qp_state;
	int cur_qp_state;
	int path_mtu;
	int path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned int qp_access_flags;
	struct bv_qp_cap cap;
	struct bv_ah_attr ah_attr;
	struct bv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
};

struct bv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct bv_send_wr {
	uint64_t wr_id;
	struct bv_send_wr *next;
	struct bv_sge *sg_list;
	int num_sge;
	int opcode;
	unsigned int send_flags;
	uint32_t imm_data; // big-endian
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		uint64_t unused[4];
	} wr;
	uint32_t unused_srqn;
	struct {
		struct bv_mw *mw;
		uint32_t rkey;
		struct bv_mw_bind_info bind_info;
	} bind_mw;
};

struct bv_recv_wr {
	uint64_t wr_id;
	struct bv_recv_wr *next;
	struct bv_sge *sg_list;
	int num_sge;
};

struct bv_wc {
	uint64_t wr_id;
	int status;
	int opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_data; // big-endian
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

struct bv_async_event {
	union {
		struct bv_cq *cq;
		struct bv_qp *qp;
		struct bv_srq *srq;
		int port_num;
	} element;
	int event_type;
};

#endif
