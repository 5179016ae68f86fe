package kafka

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var unsupportedVersion = kerr.UnsupportedVersion.Code

// listNames are fields of requests whose entries come back under another name in the answer.
var listNames = map[string]string{
	"Creations": "Results", "Filters": "Results", "TopicNames": "Topics", "CoordinatorKeys": "Coordinators",
}

// itemNames are the names that a bare string of a request has in an entry of the answer, by request.
var itemNames = map[int16]string{
	kmsg.DeleteTopics.Int16(): "Topic", kmsg.FindCoordinator.Int16(): "Key",
	kmsg.DescribeGroups.Int16(): "Group", kmsg.DeleteGroups.Int16(): "Group",
}

// Refuse is the answer to req that says err wherever its form has room for it: at the top, or for every topic,
// partition, group or resource that the request names. message goes where the form has a text; empty: none.
func Refuse(req kmsg.Request, err *kerr.Error, message string) kmsg.Response {
	resp := req.ResponseKind()
	r := refusal{key: req.Key(), code: err.Code, message: message}
	r.mirror(reflect.ValueOf(resp).Elem(), reflect.ValueOf(req).Elem())
	return resp
}

type refusal struct {
	key     int16
	code    int16
	message string
}

// mirror sets the errors of dst, a struct of a response, and gives it an entry for each one of src, the struct of the
// request that corresponds to it. Fields of the same name and type are copied, so that the client finds its names.
func (r *refusal) mirror(dst, src reflect.Value) {
	if d, ok := dst.Addr().Interface().(interface{ Default() }); ok {
		version := dst.FieldByName("Version")
		v := int64(0)
		if version.IsValid() {
			v = version.Int()
		}
		d.Default()
		if version.IsValid() {
			version.SetInt(v)
		}
	}
	for k := range dst.NumField() {
		name, f := dst.Type().Field(k).Name, dst.Field(k)
		if from := src.FieldByName(name); from.IsValid() && from.Type() == f.Type() && f.Kind() != reflect.Slice {
			f.Set(from)
		}
	}
	if f := dst.FieldByName("ErrorCode"); f.IsValid() {
		f.SetInt(int64(r.code))
	}
	if f := dst.FieldByName("ErrorMessage"); f.IsValid() && r.message != "" {
		f.Set(reflect.ValueOf(&r.message))
	}
	if f := dst.FieldByName("RecordBatches"); f.IsValid() {
		f.SetBytes([]byte{}) // null confuses clients
	}
	for k := range src.NumField() {
		from := src.Field(k)
		if from.Kind() != reflect.Slice {
			continue
		}
		name := src.Type().Field(k).Name
		if other, ok := listNames[name]; ok && !dst.FieldByName(name).IsValid() {
			name = other
		}
		to := dst.FieldByName(name)
		if !to.IsValid() || to.Kind() != reflect.Slice || to.Type().Elem().Kind() != reflect.Struct || from.Len() == 0 {
			continue
		}
		list := reflect.MakeSlice(to.Type(), from.Len(), from.Len())
		for i := range from.Len() {
			r.entry(list.Index(i), from.Index(i))
		}
		to.Set(list)
	}
}

func (r *refusal) entry(dst, src reflect.Value) {
	if src.Kind() == reflect.Struct {
		r.mirror(dst, src)
		return
	}
	r.mirror(dst, reflect.ValueOf(struct{}{}))
	name := itemNames[r.key]
	if src.Kind() == reflect.Int32 {
		name = "Partition"
	}
	f := dst.FieldByName(name)
	switch {
	case !f.IsValid():
	case f.Type() == src.Type():
		f.Set(src)
	case f.Type() == reflect.PointerTo(src.Type()):
		p := reflect.New(src.Type())
		p.Elem().Set(src)
		f.Set(p)
	}
}
