package text

// kindOf returns the kind of a word in lower case, in the languages of most pages. The name of a currency has kind money.
func kindOf(word []byte) kind {
	switch string(word) {
	case "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
		"jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
		"januar", "jänner", "februar", "märz", "mai", "juni", "juli", "oktober", "dezember", "dez", "okt",
		"janvier", "février", "mars", "avril", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre",
		"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre",
		"gennaio", "febbraio", "aprile", "maggio", "giugno", "luglio", "settembre", "ottobre", "dicembre",
		"janeiro", "fevereiro", "março", "maio", "junho", "julho", "setembro", "outubro", "novembro", "dezembro",
		"januari", "februari", "maart", "mei", "augustus",
		"января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября", "октября", "ноября", "декабря",
		"stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października", "listopada", "grudnia",
		"ιανουαρίου", "φεβρουαρίου", "μαρτίου", "απριλίου", "μαΐου", "ιουνίου", "ιουλίου", "αυγούστου", "σεπτεμβρίου", "οκτωβρίου",
		"νοεμβρίου", "δεκεμβρίου",
		"mon", "tue", "tues", "wed", "thu", "thur", "thurs", "fri", "sat", "sun", // which is a word, too
		"am", "pm", "uhr", "utc", "gmt", "cet", "cest", "bst", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "eet", "eest":
		return month
	case "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
		"montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonnabend", "sonntag",
		"lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche",
		"lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo",
		"lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica",
		"segunda", "terça", "quarta", "quinta", "sexta",
		"maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag",
		"понедельник", "вторник", "среда", "четверг", "пятница", "суббота", "воскресенье",
		"poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela",
		"δευτέρα", "τρίτη", "τετάρτη", "πέμπτη", "παρασκευή", "σάββατο", "κυριακή":
		return weekday
	case "of", "de", "del", "the":
		return joiner
	case "second", "seconds", "sec", "secs", "minute", "minutes", "min", "mins", "hour", "hours", "hr", "hrs", "day", "days", "week", "weeks",
		"month", "months", "year", "years", "ms",
		"sekunde", "sekunden", "minuten", "stunde", "stunden", "tag", "tage", "tagen", "woche", "wochen", "monat", "monate", "monaten",
		"seconde", "secondes", "heure", "heures", "jour", "jours", "semaine", "semaines", "mois",
		"segundo", "segundos", "minuto", "minutos", "hora", "horas", "día", "días", "dia", "dias", "semana", "semanas", "mes", "meses",
		"secondi", "minuti", "ora", "ore", "giorno", "giorni", "settimana", "settimane", "mese", "mesi":
		return unit
	case "ago":
		return ago
	case "today", "yesterday", "tomorrow", "now", "just", "heute", "gestern", "hier", "ayer", "hoy", "oggi", "ieri", "hoje", "ontem", "σήμερα", "χθες":
		return relative
	case "usd", "eur", "gbp", "chf", "jpy", "euro", "euros", "dollar", "dollars", "pounds", "yen", "kr", "zł", "kč", "руб", "ευρώ":
		return money
	}
	return plain
}
