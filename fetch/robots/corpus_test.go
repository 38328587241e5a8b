package robots_test

import (
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"proxima/fetch/robots"
	"proxima/scripts/measured"
)

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(measured.File(t, "robots"), "*.textproto"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("the folder of measured data has no *.textproto in robots")
	}
	met := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		corpus := newCorpus(t)
		if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, corpus); err != nil {
			t.Fatalf("parse %s: %v", name, err)
		}
		for i, test := range all(corpus, "tests") {
			body := field(test, "robotstxt").Bytes()
			for k, want := range all(test, "test_expectations") {
				url, agent := string(field(want, "testurl").Bytes()), string(field(want, "useragent").Bytes())
				allowed := field(want, "expected_outcome").Enum() == 1
				if got := robots.Parse(body, agent).Allowed(pathOf(url)); got != allowed {
					t.Errorf("%s/%d/%d: Allowed(%q) for %q = %v\n%s\n%s", filepath.Base(name), i+1, k+1, url, agent, got, body,
						field(want, "additional_explanation").Bytes())
					continue
				}
				met++
			}
		}
	}
	if t.Logf("%d files: %d expectations met", len(files), met); met == 0 {
		t.Error("no expectations in the corpus")
	}
}

// pathOf cuts scheme and authority off a URL and changes nothing else.
func pathOf(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			return rest[i:]
		}
		return ""
	}
	return url
}

// corpusDescriptor describes the messages of the corpus.
const corpusDescriptor = `name: "corpus.proto"
message_type { name: "Corpus" field { name: "tests" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Test" } }
message_type { name: "Test"
  field { name: "robotstxt" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "test_expectations" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Expectation" } }
message_type { name: "Expectation"
  field { name: "testurl" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "useragent" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "expected_outcome" number: 3 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".Outcome" }
  field { name: "additional_explanation" number: 4 label: LABEL_OPTIONAL type: TYPE_BYTES } }
enum_type { name: "Outcome" value { name: "UNKNOWN" number: 0 } value { name: "ALLOWED" number: 1 } value { name: "DISALLOWED" number: 2 } }`

// newCorpus returns an empty message that a file of the corpus can be read into.
func newCorpus(t *testing.T) *dynamicpb.Message {
	t.Helper()
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(corpusDescriptor), &file); err != nil {
		t.Fatal(err)
	}
	described, err := protodesc.NewFile(&file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessage(described.Messages().ByName("Corpus"))
}

func field(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func all(m protoreflect.Message, name protoreflect.Name) iter.Seq2[int, protoreflect.Message] {
	return func(yield func(int, protoreflect.Message) bool) {
		list := field(m, name).List()
		for i := range list.Len() {
			if !yield(i, list.Get(i).Message()) {
				return
			}
		}
	}
}
