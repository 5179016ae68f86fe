package gate

// ReceiptTag is the tagged field of a partition in a Produce answer (from version 9 on) that carries the broker's
// receipt.
const ReceiptTag = 1000
