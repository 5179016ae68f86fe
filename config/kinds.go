package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/viper"
)

// refuseWrongKinds refuses a value that is not of its setting's type, in one line that names the setting, the value and what
// it takes. The decoder would take a number below 0 as a huge one, true as 1, and a number as a duration in nanoseconds.
func refuseWrongKinds(v *viper.Viper) error {
	for _, s := range sections(Default()) {
		for _, f := range s.fields {
			given := v.Get(f.key)
			if given == nil {
				continue
			}
			if want := wantedKind(f.value.Type(), strings.TrimSpace(fmt.Sprint(given))); want != "" {
				return fmt.Errorf("%s (%s) is %q: use %s", f.key, EnvName(f.key), fmt.Sprint(given), want)
			}
		}
	}
	return nil
}

// wantedKind says what a setting of a type takes if a text is not that; "" if it is.
func wantedKind(t reflect.Type, text string) string {
	var err error
	want := ""
	switch kind := t.Kind(); {
	case t == durationType:
		_, err = time.ParseDuration(text)
		want = "a duration such as 500ms, 10s or 2h"
	case kind == reflect.Bool:
		_, err = strconv.ParseBool(text)
		want = "true or false"
	case kind >= reflect.Int && kind <= reflect.Int64:
		_, err = strconv.ParseInt(text, 0, t.Bits())
		want = "a whole number"
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		_, err = strconv.ParseUint(text, 0, t.Bits())
		want = "a whole number from 0 on"
	case kind == reflect.Float32 || kind == reflect.Float64:
		_, err = strconv.ParseFloat(text, t.Bits())
		want = "a number"
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, strconv.ErrRange):
		return want + fmt.Sprintf(" of at most %d bits", t.Bits())
	}
	return want
}
