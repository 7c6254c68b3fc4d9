//! Golden cases: reading them, and turning their expressions into numbers or operands.

pub mod lab;

use std::collections::BTreeMap;

use hcq_nostd::patch::{Derived, PatchList, Term};
use hcq_nostd::value::{Value, Var};
pub use serde_json::Value as Json;

/// The values of a binding, by name.
pub type Vars = BTreeMap<String, u64>;

/// All cases of one file of golden data.
pub fn cases(file: &str) -> Vec<Json> {
    let path = format!("{}/../vectors/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A case's name.
pub fn name(case: &Json) -> &str {
    case["name"].as_str().expect("a name")
}

/// The items of an array; none for anything else.
pub fn list(j: &Json) -> &[Json] {
    j.as_array().map_or(&[], Vec::as_slice)
}

/// A number, as the files write them: hexadecimal text, maybe negative.
pub fn signed(j: &Json) -> i128 {
    if let Some(b) = j.as_bool() {
        return b.into();
    }
    let text = j.as_str().unwrap_or_else(|| panic!("{j} is no number"));
    let (digits, sign) = text.strip_prefix('-').map_or((text, 1), |t| (t, -1));
    let digits = digits.strip_prefix("0x").expect("hexadecimal");
    sign * i128::from_str_radix(digits, 16).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A number that is not negative.
pub fn number(j: &Json) -> u64 {
    u64::try_from(signed(j)).unwrap_or_else(|_| panic!("{j} is not below 2^64"))
}

/// A number of 32 bits.
pub fn number32(j: &Json) -> u32 {
    u32::try_from(number(j)).unwrap_or_else(|_| panic!("{j} is not below 2^32"))
}

/// An array of 32-bit words.
pub fn words(j: &Json) -> Vec<u32> {
    list(j).iter().map(number32).collect()
}

/// Bytes written as hexadecimal digits.
pub fn bytes(j: &Json) -> Vec<u8> {
    let text = j.as_str().expect("hexadecimal bytes").as_bytes();
    let digit = |c: u8| char::from(c).to_digit(16).expect("a digit") as u8;
    text.chunks(2)
        .map(|c| digit(c[0]) << 4 | digit(c[1]))
        .collect()
}

/// The variables' names, in the file's order.
pub fn variables(case: &Json) -> Vec<String> {
    case["inputs"]["vars"]
        .as_object()
        .map_or_else(Vec::new, |v| v.keys().cloned().collect())
}

/// The values of one binding.
pub fn binding(j: &Json) -> Vars {
    let vars = j["vars"].as_object().expect("values");
    vars.iter()
        .map(|(name, value)| (name.clone(), number(value)))
        .collect()
}

#[derive(Debug)]
enum Expr {
    Number(i128),
    Variable(String),
    Op(Box<Expr>, &'static str, Box<Expr>),
}

const OPS: [&str; 7] = ["<<", ">>", "+", "-", "*", "&", "|"];

impl Expr {
    /// Fully parenthesised text: a number, a name, or `(a op b)`.
    fn parse(text: &str) -> Self {
        let mut rest = text;
        let expr = Self::take(&mut rest);
        assert!(rest.is_empty(), "{text}: {rest} is left over");
        expr
    }

    fn take(rest: &mut &str) -> Self {
        if let Some(inner) = rest.strip_prefix('(') {
            *rest = inner;
            let a = Self::take(rest);
            let spaced = rest.trim_start();
            let op = *OPS
                .iter()
                .find(|op| spaced.starts_with(**op))
                .unwrap_or_else(|| panic!("no operator: {rest}"));
            *rest = spaced[op.len()..].trim_start();
            let b = Self::take(rest);
            *rest = rest
                .strip_prefix(')')
                .unwrap_or_else(|| panic!("no closing parenthesis: {rest}"));
            return Self::Op(Box::new(a), op, Box::new(b));
        }
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
            .unwrap_or(rest.len());
        let (token, left) = rest.split_at(end);
        *rest = left;
        if token.starts_with("0x") || token.starts_with("-0x") {
            return Self::Number(signed(&Json::from(token)));
        }
        Self::Variable(token.to_owned())
    }

    /// Over unbounded integers.
    fn eval(&self, vars: &Vars) -> i128 {
        match self {
            Self::Number(n) => *n,
            Self::Variable(name) => (*vars
                .get(name)
                .unwrap_or_else(|| panic!("no variable {name}")))
            .into(),
            Self::Op(a, op, b) => {
                let (a, b) = (a.eval(vars), b.eval(vars));
                match *op {
                    "<<" => a << b,
                    ">>" => a >> b,
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    "&" => a & b,
                    _ => a | b,
                }
            }
        }
    }
}

/// How operands are given to a recording: as variables, or as the numbers of one binding.
#[derive(Clone, Copy)]
pub enum Operands<'a> {
    /// Variables are the patch list's.
    Symbolic(&'a BTreeMap<String, Var>),
    /// Variables are replaced by these numbers.
    Fixed(&'a Vars),
}

impl Operands<'_> {
    /// The operand for a number or an expression of a case.
    pub fn value(&self, list: &mut PatchList<'_>, j: &Json) -> Value {
        let Some(text) = j["expr"].as_str() else {
            return Value::Imm(wrap(signed(j)));
        };
        let expr = Expr::parse(text);
        match self {
            Self::Fixed(vars) => Value::Imm(wrap(expr.eval(vars))),
            Self::Symbolic(vars) => operand(&expr, vars, list),
        }
    }
}

fn wrap(n: i128) -> u64 {
    (n & i128::from(u64::MAX)) as u64
}

/// The least that expresses it: an immediate, an adjusted variable, a product, or a sum of parts.
fn operand(expr: &Expr, vars: &BTreeMap<String, Var>, list: &mut PatchList<'_>) -> Value {
    if let Some(value) = affine(expr, vars) {
        return value;
    }
    if let Expr::Op(a, "*", b) = expr
        && !matches!((&**a, &**b), (Expr::Number(_), _) | (_, Expr::Number(_)))
    {
        let (a, b) = (operand(a, vars, list), operand(b, vars, list));
        return list.product(a, b).expect("variables of this list");
    }
    let (mut base, mut terms) = (0, Vec::new());
    parts(expr, 0, vars, &mut base, &mut terms);
    let derived =
        Derived::sum(base, &terms).unwrap_or_else(|| panic!("{expr:?} is no sum of parts"));
    list.derive(derived).expect("variables of this list").into()
}

fn affine(expr: &Expr, vars: &BTreeMap<String, Var>) -> Option<Value> {
    match expr {
        Expr::Number(n) => Some(Value::Imm(wrap(*n))),
        Expr::Variable(name) => Some(vars[name].into()),
        Expr::Op(a, op, b) => {
            let (a, b) = (affine(a, vars)?, affine(b, vars)?);
            match (*op, a, b) {
                ("+", v, Value::Imm(n)) | ("+", Value::Imm(n), v) => Some(v + n),
                ("-", v, Value::Imm(n)) => Some(v - n),
                ("*", v, Value::Imm(n)) | ("*", Value::Imm(n), v) => Some(v * n),
                ("<<", v, Value::Imm(n)) => Some(v * (1 << n)),
                // The shift has made room for the bits.
                ("|", Value::Var(of), Value::Imm(n))
                    if of.add == 0 && n < of.scale & of.scale.wrapping_neg() =>
                {
                    Some(Value::Var(of) + n)
                }
                _ => None,
            }
        }
    }
}

/// `expr << shl` as a base and parts of variables.
fn parts(
    expr: &Expr,
    shl: u32,
    vars: &BTreeMap<String, Var>,
    base: &mut u64,
    terms: &mut Vec<Term>,
) {
    match expr {
        Expr::Number(n) => *base += wrap(*n) << shl,
        Expr::Op(a, "+" | "|", b) => {
            parts(a, shl, vars, base, terms);
            parts(b, shl, vars, base, terms);
        }
        Expr::Op(a, "<<", b) => parts(a, shl + number_of(b) as u32, vars, base, terms),
        Expr::Op(a, "*", b) => {
            let factor = number_of(b);
            assert!(factor.is_power_of_two(), "{expr:?}");
            parts(a, shl + factor.trailing_zeros(), vars, base, terms);
        }
        Expr::Op(a, "&", b) => {
            let bits = number_of(b).trailing_ones();
            assert_eq!(
                1u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1),
                number_of(b),
                "{expr:?}"
            );
            let (of, from) = match &**a {
                Expr::Op(x, ">>", n) => (&**x, number_of(n)),
                x => (x, 0),
            };
            let Some(Value::Var(of)) = affine(of, vars) else {
                panic!("{expr:?} is no part of a variable")
            };
            terms.push(Term::part(of, from as u8, bits as u8, shl as u8));
        }
        _ => panic!("{expr:?} is no sum of parts"),
    }
}

fn number_of(expr: &Expr) -> u64 {
    let Expr::Number(n) = expr else {
        panic!("{expr:?} is no number")
    };
    wrap(*n)
}

/// The number of an expression of a case, for the values of a binding.
pub fn evaluate(text: &str, vars: &Vars) -> i128 {
    Expr::parse(text).eval(vars)
}

#[test]
fn expressions_evaluate_and_lower_to_the_same_number() {
    let vars = BTreeMap::from([("n".to_owned(), Var::new(0))]);
    for (text, n) in [
        ("((n * 0x2) + 0x1)", 7),
        ("((n << 0x8) | 0xa)", 0xff),
        ("(0x3 + (n - -0x1))", 4),
    ] {
        let expr = Expr::parse(text);
        let mut none = PatchList::none();
        let value = operand(&expr, &vars, &mut none);
        assert_eq!(
            i128::from(value.eval(|_| n)),
            evaluate(text, &Vars::from([("n".to_owned(), n)])),
            "{text}"
        );
    }
}
