package text

import (
	"strings"
	"unicode"
)

// primary returns the first part of a language tag in lower case, or "" if that is no language.
func primary(tag string) string {
	tag = strings.ToLower(strings.TrimSpace(tag))
	if i := strings.IndexAny(tag, "-_, "); i >= 0 {
		tag = tag[:i]
	}
	if len(tag) < 2 || len(tag) > 3 || strings.Trim(tag, "abcdefghijklmnopqrstuvwxyz") != "" {
		return ""
	}
	return tag
}

// common lists words that are frequent in one language and rare in the others. It leaves out words such as "a", "na" or "de", which are
// frequent in dozens.
var common = []struct{ language, words string }{
	{"en", " the of and to is that for it was with are this be have from you not by which their has will "},
	{"de", " der die und das ist nicht von den mit dem sich auf ein eine für auch werden wird oder einer "},
	{"fr", " les des et est une dans que pour qui sur pas vous plus au avec sont ce nous cette mais ou "},
	{"es", " el los las y por con para su como más está pero sus este son también una sin del al "},
	{"it", " il che è gli della una per con non sono del anche alla più nel dei questo delle ogni "},
	{"pt", " os do em um uma para com não mais dos ao como foi também são das pelo pela você à "},
	{"nl", " het een van en dat niet zijn voor met op er aan ook wordt naar deze bij maar door "},
	{"sv", " och att är av för inte ett till från jag också när där mycket vara hade vid "},
	{"da", " og ikke at af det blev bliver efter mellem meget hvad have uden "},
	{"no", " og ikke å av det ble blir etter mellom mye hva hadde uten "},
	{"pl", " się nie jest że są przez oraz dla od może jako jego który która które tym także lub w z "},
	{"cs", " se že jsou byl pro jako nebo také které který podle jeho ale být při není až mezi v "},
	{"sk", " sú bol bola pre alebo tiež ktoré ktorý ktorá podľa byť keď pri nie aj medzi ako v že "},
	{"hu", " az és hogy nem egy volt csak meg már még mint vagy azt minden ezt "},
	{"tr", " ve bir bu için ile çok olarak daha olan gibi kadar ancak sonra ama her veya "},
}

// Bounds on guessing.
const (
	guessWords = 400 // the first words are enough
	guessLeast = 5   // fewer words or letters of a language prove nothing
)

// guess finds the language of a text by its script or its most frequent words. It returns "" if that is not clear.
func guess(text string) string {
	var counts [20]int
	words, letters := 0, 0
	var scripts [6]int
	tables := [...]*unicode.RangeTable{unicode.Hiragana, unicode.Hangul, unicode.Greek, unicode.Thai, unicode.Hebrew, unicode.Han}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if words++; words > guessWords {
			break
		}
		n := 0
		for _, r := range word {
			if n++; n > 64 {
				break
			}
			letters++
			if r < 0x370 {
				continue
			}
			for i, table := range tables {
				if unicode.Is(table, r) {
					scripts[i]++
				}
			}
		}
		if len(word) > 16 {
			continue
		}
		word = " " + strings.ToLower(word) + " "
		for i, c := range common {
			if strings.Contains(c.words, word) {
				counts[i]++
			}
		}
	}
	for i, language := range [...]string{"ja", "ko", "el", "th", "he", "zh"} {
		share := 2 // half of the letters
		if language == "ja" {
			share = 10 // among them Chinese characters
		}
		if scripts[i] >= guessLeast && scripts[i]*share > letters {
			return language
		}
	}
	best, second := 0, 0
	language := ""
	for i, c := range common {
		switch n := counts[i]; {
		case n > best:
			best, second, language = n, best, c.language
		case n > second:
			second = n
		}
	}
	if best < guessLeast || 2*best < 3*second || 20*best < min(words, guessWords) {
		return ""
	}
	return language
}
