package node

import (
	"cmp"
	"encoding"
	"reflect"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// OpenAPI returns the description of the API in the form of OpenAPI 3.1. docs/openapi.json has a copy.
func OpenAPI() any {
	schemas, paths := object{}, object{}
	for _, r := range routes() {
		on, _ := paths[r.path].(object)
		if on == nil {
			on = object{}
			paths[r.path] = on
		}
		on[strings.ToLower(r.method)] = r.operation(schemas)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Proxima", "version": "1",
			"description": "What a node of Proxima can be asked and told, on the socket status.sock in its data directory and on console.listen."},
		"servers":    []any{object{"url": apiRoot}},
		"paths":      paths,
		"security":   []any{object{"token": []any{}}, object{}},
		"components": object{"schemas": schemas, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	}
}

// operation returns the description of one call, and adds the types in it to the schemas.
func (r route) operation(schemas object) object {
	content := object{r.media: object{}}
	if r.answer != nil {
		content = object{"application/json": object{"schema": schemaOf(reflect.TypeOf(r.answer), schemas)}}
	}
	failed := object{"description": "It was not done: 400 for bad input, 404 for what is not here, 409 for what cannot be now, 503 for what may be possible later.",
		"content": object{"application/json": object{"schema": schemaOf(reflect.TypeFor[trouble](), schemas)}}}
	o := object{"summary": r.does, "operationId": strings.Trim(strings.ReplaceAll(strings.ToLower(r.method)+r.path, "/", "-"), "-"),
		"responses": object{"200": object{"description": "Done.", "content": content}, "default": failed}}
	var params []any
	if r.mayBeAsked() {
		r.query = append(r.query, param{"node", "the member that is to answer in place of this node", false})
	}
	for _, p := range r.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.does, "required": p.required, "schema": object{"type": "string"}})
	}
	if params != nil {
		o["parameters"] = params
	}
	if r.body != "" {
		o["requestBody"] = object{"description": r.body, "required": true, "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	}
	return o
}

// schemaOf returns the JSON schema of a type. It adds named structs to the schemas and refers to them.
func schemaOf(t reflect.Type, schemas object) object {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64, reflect.Float32:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": []any{"array", "null"}, "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": []any{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.Interface:
		return object{}
	case reflect.Struct:
		name := strings.ReplaceAll(t.String(), ".", "_")
		if schemas[name] == nil {
			properties := object{}
			schemas[name] = object{"type": "object", "properties": properties}
			for _, f := range reflect.VisibleFields(t) {
				// As encoding/json names them.
				key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if f.IsExported() && key != "-" && !(f.Anonymous && key == "") {
					properties[cmp.Or(key, f.Name)] = schemaOf(f.Type, schemas)
				}
			}
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{"type": "integer"}
}
