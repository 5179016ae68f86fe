package exit

import "fmt"

// Finding is what a check of a stopped node's folder met. Its String is one sentence that names the file, the cause and
// the remedy, as a Fault's does.
type Finding struct {
	Part     string `json:"part"`    // of the folder: "state", "votes"
	File     string `json:"file"`    // or folder
	Problem  string `json:"problem"` // what is wrong, and the cause
	Remedy   string `json:"remedy"`
	Harmless bool   `json:"harmless"` // a crash or an orderly stop may leave it, nothing is lost, and the next start deals with it
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s (%s); %s", f.Part, f.Problem, f.File, f.Remedy)
}
