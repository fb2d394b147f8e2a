// Package failpoint names the points at which a test can kill the program or drop an answer. In an
// ordinary build every call is an empty function, inlined. With the build tag failpoints, the
// environment arms points:
//
//	WEIR_FAILPOINT="point[@part][#n]=kill|lose|stop|hold;…"
//
// matches the n-th time (default the first) that the point is reached with an id that contains the
// part; without a part, with any id. kill ends the process as SIGKILL does, stop halts it as
// SIGSTOP does, hold blocks the goroutine there, and lose drops the answer at the points that have
// one. Before it acts, it appends a line "point id act" to the file that WEIR_FAILPOINT_LOG names.
package failpoint

// Point is a moment in the life of an action. The id that it is reached for holds the
// action's, except where its comment says otherwise.
type Point string

// The points, in the order in which an action reaches them.
const (
	// Claiming: a request is translated and has a name; nothing is on the log (F1).
	Claiming Point = "claiming"
	// Claimed: the accepted event is acknowledged, and the client has no response yet (F2).
	Claimed Point = "claimed"
	// Fetched: a worker has the message and has looked at nothing (F4).
	Fetched Point = "fetched"
	// Decided: policy has decided about a call, and no connection was opened (F5).
	Decided Point = "decided"
	// Dialled: the connection stands, TLS included, and no attempt is on the log (F6). A
	// mocked call comes here without a connection.
	Dialled Point = "dialled"
	// Declared: the attempt is as durable as its class needs, and no byte has left (F7).
	Declared Point = "declared"
	// Appended: a message is on the log and its acknowledgement here, but its writer was not
	// told. lose has the writer believe that none came (F8). The id is the subject.
	Appended Point = "appended"
	// MidBody: half of a request's body was given to the connection (F9). The id is the
	// request's target.
	MidBody Point = "midbody"
	// Begun: the head of an answer has come, and its body was not read. The id is the
	// request's target.
	Begun Point = "begun"
	// Answered: only its worker knows the result of a call (F11).
	Answered Point = "answered"
	// Settling: how the action ends is known to its worker alone (F12).
	Settling Point = "settling"
	// Acking: the action has ended, and its message is not acknowledged (F13). The id is the
	// message's subject.
	Acking Point = "acking"
)
