package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answers says how the bodies of answers are laid out, in the notation of shapes. Clients that do not trust their broker
// walk an answer before they decode it: the decoder would go through billions of tags that a few bytes announce.
var answers = compile(map[kmsg.Key]string{
	kmsg.Produce:                 "[s@-12 u@13+ [i h l l@2+ l@5+ [i s]@8+ s@8+ <0 {i i}>]] i@1+ <0 [i s i s]>",
	kmsg.Fetch:                   "i@1+ h@7+ i@7+ [s@-12 u@13+ [i h l l@4+ l@5+ [l l]@4+ i@11+ x <0 {i l}> <1 {i i}> <2 {l i}>]] <0 [i s i s]>",
	kmsg.ListOffsets:             "i@2+ [s [i h [l]@-0 l@1+ l@1+ i@4+]]",
	kmsg.Metadata:                "i@3+ [i s i s@1+] s@2+ i@1+ [h s u@10+ b@1+ [h i i i@7+ [i] [i] [i]@5+] i@8+] i@8-10 h@13+",
	kmsg.OffsetCommit:            "i@3+ [s@-9 u@10+ [i h]]",
	kmsg.OffsetFetch:             "i@3+ [s [i l i@5+ s h]]@-7 h@2-7 [s [s@8-9 u@10+ [i l i s h]] h]@8+",
	kmsg.FindCoordinator:         "i@1+ h@-3 s@1-3 i@-3 s@-3 i@-3 [s i s i h s]@4+",
	kmsg.JoinGroup:               "i@2+ h i s@7+ s s b@9+ s [s s@5+ x]",
	kmsg.Heartbeat:               "i@1+ h",
	kmsg.LeaveGroup:              "i@1+ h [s s h]@3+",
	kmsg.SyncGroup:               "i@1+ h s@5+ s@5+ x",
	kmsg.DescribeGroups:          "i@1+ [h s@6+ s s s s [s s@4+ s s x x] i@3+]",
	kmsg.ListGroups:              "i@1+ h [s s s@4+ s@5+]",
	kmsg.SASLHandshake:           "h [s]",
	kmsg.ApiVersions:             "h [h h h] i@1+ <0 [s h h]> <1 l> <2 [s h h]> <3 b>",
	kmsg.CreateTopics:            "i@2+ [s u@7+ h s@1+ i@5+ h@5+ [s s b b b]@5+ <0 h>]",
	kmsg.DeleteTopics:            "i@1+ [s u@6+ h s@5+]",
	kmsg.DeleteRecords:           "i [s [i l h]]",
	kmsg.InitProducerID:          "i h l h",
	kmsg.OffsetForLeaderEpoch:    "i@2+ [s [h i i@1+ l]]",
	kmsg.DescribeACLs:            "i h s [b s b@1+ [s s b b]]",
	kmsg.CreateACLs:              "i [h s]",
	kmsg.DeleteACLs:              "i [h s [h s b s b@1+ s s b b]]",
	kmsg.DescribeConfigs:         "i [h s b s [s s b b@-0 b@1+ b [s s b]@1+ b@3+ s@3+]]",
	kmsg.AlterConfigs:            "i [h s b s]",
	kmsg.SASLAuthenticate:        "h s x l@1+",
	kmsg.CreatePartitions:        "i [s h s]",
	kmsg.DeleteGroups:            "i [s h s@3+]",
	kmsg.IncrementalAlterConfigs: "i [h s b s]",
	kmsg.OffsetDelete:            "h i [s [i h]]",
	kmsg.DescribeCluster:         "i h s b@1+ s i [i s i s b@2+] i",
})

// CheckAnswer walks the body of an answer, from behind its header: every length and count in it must fit the bytes that are
// there. Of an answer in a version that is not known it says so.
func CheckAnswer(resp kmsg.Response, body []byte) error {
	s := answers[resp.Key()]
	if s == nil || resp.GetVersion() < 0 || resp.GetVersion() > resp.MaxVersion() {
		return fmt.Errorf("%w: answer %d in version %d", ErrVersion, resp.Key(), resp.GetVersion())
	}
	w := walker{b: body, version: resp.GetVersion(), flexible: resp.IsFlexible(), room: 1 << 62} // structs have bytes of their own
	w.shape(s, 0)
	if w.err == nil && len(w.b) > 0 {
		w.err = errors.New("there is more behind it")
	}
	if w.err != nil {
		return fmt.Errorf("%w: %s answer of version %d: %w", ErrFrame, kmsg.NameForKey(resp.Key()), resp.GetVersion(), w.err)
	}
	return nil
}
