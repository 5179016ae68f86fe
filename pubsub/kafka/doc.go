// Package kafka is the door of the topic log: it speaks the Kafka protocol with clients and hands whole, decoded
// requests to a Handler. It knows nothing of topics, the ledger or storage.
//
// A connection has two goroutines. The reader cuts frames, checks their shape, decodes them with kmsg, logs clients in,
// and calls Handler.Serve for one request after the other: what must happen in order (an append, for instance) happens
// there. Serve gives back a Reply, which waits for whatever the answer waits for; replies go through a bounded queue to
// the writer, which calls them one after the other and writes the answers. So answers leave in the order of the
// requests, while later requests are already worked on; a full queue stops the reader, and with it the client.
//
// The server answers ApiVersions, SaslHandshake and SaslAuthenticate itself, refuses what it does not know in a form
// that the client can read (see Refuse), and closes a connection only on bytes that are no request, on requests before
// the login, and on an expired session.
//
// Clients are strangers. A frame is taken into memory only when a budget over all connections has room for it, of which
// one principal gets a share (budget); before the login frames are small. Array lengths, nesting and tags are walked
// before kmsg allocates anything for them (shape). Every wait for bytes has a deadline: for the login, for the rest of
// a frame at a lowest rate, for the next frame, for the client to take an answer. Connections are limited altogether,
// per host and per principal; when all are taken, one that is not logged in makes room.
//
// State: Server owns the table of connections (one mutex) and the budgets; a Conn's login state belongs to its reader,
// what others may read of it is atomic. It does not store, authorise, or count quotas: a handler that wants a client to
// slow down calls Conn.Throttle.
package kafka
