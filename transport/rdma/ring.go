package rdma

// unit is what positions in a ring count in, and what every record is a multiple of: one cache line.
const unit = 64
