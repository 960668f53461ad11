"""Wording of the public health text of our own: leaflets, ward instructions, opening hours, example forms.

`## name` opens a topic, `* ` a sentence of it; inside, `[a|b]` is a choice and `{2..9}` a whole number. Everything here
is addressed to a reader or to staff in general and is about nobody. None of it may be worded like the hospital's notes:
tests/models/test_public_text.py compares the two.
"""

TRAINING = """
## measuring blood pressure at home
* [Measuring your blood pressure at home|How to use a home pressure monitor|A short guide to home readings]
* [Sit on a firm chair|Choose a chair with a straight back] and [rest quietly|stay still] for {3..9} minutes before
  you [press the button|start the monitor].
* Wrap the cuff around your bare upper arm, about {2..4} cm above the elbow, [snug but not tight|so that one finger
  fits].
* Keep [both feet|your feet] flat on the floor and do not [talk|cross your legs|chew gum] while the [cuff
  fills|machine is working].
* Take {2..3} readings, {1..3} minutes apart, and [write every one of them down|keep them all, even the odd ones].
* Many adults aim for an upper number below {130..140} and a lower number below {80..90} mmHg, but your [own
  target|goal] may be different.
* The upper number is called systolic and the lower one diastolic; [both matter|neither should be ignored].
* Avoid coffee, [exercise|a cigarette|a heavy meal] for {20..45} minutes beforehand, because each can [raise|lift]
  the [result|figure] for a while.
* If a reading is above {175..185}/{105..115} mmHg, wait, measure again, and [ring for advice|call the advice line].
* A record could look like this: {1..28} {5..9}:{10..55} am, {110..139}/{70..89}; {1..28} {6..9}:{10..55} pm,
  {110..139}/{70..89}.
* Monitors should be [checked|calibrated] every {1..3} years; [a pharmacy can often do this|ask the shop that sold
  it].

## hand washing
* [Clean hands save lives|Hand hygiene for everybody on the ward|Wash in, wash out].
* Wet your hands with warm water, add {1..3} ml of soap, and rub palm to palm for {15..40} seconds.
* Do not forget the thumbs, the [backs of the hands|finger tips] and the skin between the fingers.
* Rinse [well|until no foam is left] and dry with a paper towel, then use the towel to turn off the tap.
* Alcohol gel [works well|is enough] when hands look clean, but it does not remove [spores|visible dirt].
* Staff clean their hands before and after each contact; [you may remind them|feel free to ask].
* Visitors are asked to use the gel dispenser at the [door|entrance|foot of the bed] when they come and when they
  go.
* Rings, watches and long sleeves [hide germs|make cleaning harder], so they [stay in the locker|are left at home].
* Audits in {2015..2029} found that compliance rose from {40..60} to {70..95} percent after [posters|training] were
  introduced.

## opening hours
* [Opening hours of the outpatient building|When we are open|Reception and telephone hours]
* Monday to Thursday: {7..8}:{10..50} am to {4..6}:{10..50} pm. Friday: {7..8}:30 am to {1..3}:00 pm.
* Weekends and public holidays: closed. The pharmacy hatch opens on Saturday from {9..10} am to {1..2} pm.
* Main switchboard: 800-555-01{10..99}. Appointment desk: extension {2100..4999}. Fax: 800-555-01{10..99}.
* Car park B has {80..300} spaces; the first {20..45} minutes are free and each further hour costs {1..4} dollars.
* Bus lines {2..9} and {10..48} stop outside the east entrance every {8..20} minutes.
* Please arrive {10..20} minutes early and bring [a list of your tablets|your insurance card|reading glasses].
* If you cannot come, tell us at least {24..48} hours ahead, so that [somebody else can have the slot|the slot is
  not lost].
* Write to us at: Outpatient desk, Building {2..9}, Level {1..6}. E-mail: desk{10..99}@clinic.example.
* The waiting area has water, [toys for small children|free wireless access] and a quiet corner behind the plants.

## using an inhaler
* [Getting the most from your inhaler|Inhaler technique in seven steps|A puff that reaches the lungs]
* Take the cap off, look inside for [fluff|dust], and shake the canister {4..8} times.
* Breathe out [gently|all the way], seal your lips around the mouthpiece, and press once as you begin to breathe in.
* Hold your breath for {5..10} seconds [if that is comfortable|or as long as you comfortably can].
* Wait {30..60} seconds before a second puff; [do not hurry|pressing twice at once wastes half].
* A spacer makes the job easier, [above all for children under {5..8}|especially when breathing is hard].
* Rinse and spit after a steroid inhaler to [prevent a sore mouth|avoid hoarseness and thrush].
* A counter showing {0..20} means that a new device should be [ordered|collected] this week.
* Clean the plastic case every {7..14} days in lukewarm water and let it dry overnight.
* Needing the blue reliever more than {2..4} times a week is a sign that the asthma plan should be reviewed.

## eating well
* [Food for a healthy heart|What goes on the plate|Small changes to meals]
* Fill half of the plate with vegetables, a quarter with [beans, fish or lean meat|protein] and a quarter with whole
  grain.
* Adults need roughly {1600..2600} kcal a day; the [right amount|exact figure] depends on size, age and activity.
* Choose snacks with less than {90..180} kcal, such as [an apple|carrot sticks|a small pot of plain yoghurt].
* Salt hides in bread, cheese, [soups|sauces] and crisps: more than {5..6} g a day is too much for most people.
* Read the label: a product with {15..30} g of sugar in each 100 g is [high|rich] in sugar.
* Drink {6..9} glasses of water, and [keep fizzy drinks for feasts|swap sweet drinks for tea].
* Oily fish {1..2} times a week supplies omega-3 fats; [walnuts and rapeseed oil|flax seed] are a plant source.
* Losing {2..5} percent of body weight already [improves|lowers] sugar and fat values in the blood.
* Fibre should come up slowly, by {3..6} g each week, [with plenty to drink|or the belly protests].

## medicines at home
* [Keeping medicines safe|Tablets at home|Store, count, return]
* Keep every medicine in its box, below {25..30} degrees, and [out of sight and reach of children|in a locked
  cupboard].
* A weekly pill box with {14..28} compartments helps if you take [several|more than {4..9}] tablets a day.
* If you forget a dose and it is less than {4..8} hours late, take it; otherwise [skip it|leave it out].
* Never double the next dose to [make up|catch up].
* Paracetamol: adults may take {500..1000} mg up to {3..4} times in 24 hours, with at least {4..6} hours in between.
* Ibuprofen {200..400} mg should be taken with food and [not at all with stomach ulcers|avoided in late pregnancy].
* Liquid antibiotics usually keep for {7..14} days in the fridge; write the [opening|expiry] date on the bottle.
* Do not split capsules or coated tablets unless the leaflet [allows it|says so].
* Return what is left over to a pharmacy; [the toilet|the sink] is the wrong place for it.
* Tell the pharmacist about herbs, [vitamins|teas] and sleep aids as well, because some of them [interact|do not
  mix].

## preparing for an operation
* [Before your operation|Getting ready for surgery|Checklist for the day of the procedure]
* Stop eating {6..8} hours and stop clear drinks {1..3} hours before the [agreed|arrival] time.
* Shower with [plain soap|the wash we gave you], and leave nail varnish, contact lenses and jewellery off.
* Blood thinners may have to pause for {2..7} days: the anaesthetist decides, [never stop on your own|do not guess].
* Bring comfortable clothes, slippers with a closed heel and a [charger|book].
* You will sign a consent form; read it [slowly|twice] and ask about [risks|other options] before you sign.
* The side to be treated is marked with a pen while you are awake, and the team reads the checklist aloud {2..3}
  times.
* Most people spend {40..120} minutes in recovery and then {1..4} hours on the day unit.
* Somebody must take you home and stay for {12..24} hours; [driving is not allowed|a taxi alone is not enough].
* Stitches are removed after {5..14} days unless they dissolve by themselves.

## blood sugar
* [Checking your sugar level|Living with sugar in balance|A finger prick in four steps]
* Wash with warm water, prick the side of a fingertip and touch the strip to the drop.
* Before meals many people aim at {70..90} to {120..140} mg/dl, and below {160..190} two hours afterwards.
* A value under {60..70} mg/dl is low: take {15..20} g of fast sugar, for example [juice|glucose tablets], and
  measure again after {10..15} minutes.
* Shaking, sweat and [sudden hunger|a racing heart] are typical warnings; [some people notice none|they fade with
  time].
* HbA1c tells the average of the last {8..12} weeks; [below {65..75} tenths|a goal near 7 percent] suits many
  adults.
* Insulin in use keeps at room temperature for about {4..6} weeks; spare pens stay in the fridge at {2..8} degrees.
* Change the site with each injection, moving by {2..3} cm, so that [lumps do not form|the skin stays soft].
* Have the eyes, the kidneys and the feet [looked at|examined] once a year.
* Strips run out of date: look at the [month|date] printed on the tube, for instance 0{1..9}/{2026..2031}.

## preventing falls
* [Steady on your feet|Safe steps at home|Fall prevention for older adults]
* About {1..3} in {4..9} people over {65..80} fall at least once a year, [most of them indoors|often at night].
* Remove loose rugs, tape down cables and [light the stairs|put a lamp beside the bed].
* Shoes should close at the back and have a sole of {1..2} cm that does not slip.
* Stand up in stages: sit for {20..60} seconds on the edge of the bed, [move the toes|take a breath], then rise.
* Balance training {2..3} times a week for {12..26} weeks lowers the risk by roughly {20..40} percent.
* Have the eyes tested every {12..24} months and ask whether [sleeping tablets|water tablets] are still needed.
* On the ward the call bell hangs [within reach|on the right]; please ring instead of walking alone at night.
* A walking frame is the right height when the elbows bend by about {15..25} degrees.
* After a fall, stay down for a moment, check what hurts, roll to the side and [call for help|get up by a chair].

## vaccination
* [Vaccines for adults|Your jab appointment|Protection before the winter]
* The flu vaccine is renewed each year and is offered from {1..30} September to {1..30} November.
* A tetanus booster is advised every {10..20} years, [after a dirty wound sooner|earlier for deep cuts].
* Sore arms and a mild temperature of up to {37..38}.{1..9} are common and pass within {1..3} days.
* Wait {10..20} minutes in the hall afterwards, [since fainting is possible|so that we can watch you].
* Tell the team about allergies to [egg|latex] or about a bleeding disorder before the needle comes out.
* Two doses, {4..12} weeks apart, give about {80..97} percent protection in published trials.
* Bring the yellow booklet; a line in it reads: date, batch {100..999}-{10..99}, site, stamp.
* Pregnant women are offered whooping cough vaccine between weeks {16..20} and {28..32}.
* Side effects can be reported on the public form; [it takes {5..12} minutes|no login is needed].

## ward routines
* [A day on our ward|What happens when|Daily rhythm on level {2..7}]
* Breakfast arrives at {7..8}:{10..50}, lunch at 12:{10..45} and supper at {17..18}:{10..45}.
* The team visits between {8..9} and {10..11} o'clock; [note your questions beforehand|a relative may listen in].
* Quiet hours run from {21..22}:30 until {5..6}:30, when lamps are dimmed and [telephones muted|doors closed].
* Visitors are welcome from {14..15} to {19..20} o'clock, at most {2..3} at a time.
* Flowers in pots are not allowed on intensive care, [cut flowers neither|because soil carries germs].
* Each bed has a number, for example {1..4}{10..29}, a lamp, a bell and a drawer with a key.
* Valuables belong in the safe at the desk; a receipt with {5..8} digits is handed out.
* Nurses hand over at {6..7}:00, {13..14}:00 and {21..22}:00, so the bell may take [a little|{3..9} minutes] longer
  then.
* Physiotherapy takes place in room {1..9}.{10..40}; a plan hangs beside the lift.

## sleep
* [Sleeping better without tablets|Tips for tired people|Rest and the body clock]
* Most adults need {6..8} to {8..9} hours, teenagers [more|about {8..10}], and older people wake more often.
* Go to bed and rise at the same time, [also on Sundays|within {30..60} minutes], for at least {3..6} weeks.
* Caffeine lingers for {5..9} hours, so the last cup should be before {1..3} o'clock.
* A bedroom of {16..19} degrees, dark and [silent|without screens], invites sleep.
* If you lie awake for {20..30} minutes, leave the bed, [read something dull|listen to calm music] and return when
  drowsy.
* Loud snoring with pauses of more than {10..20} seconds deserves a sleep study.
* Naps are best kept to {15..30} minutes and before [the afternoon coffee|three].
* Alcohol shortens the way into sleep but breaks the second half of the night.

## giving blood and samples
* [Having blood taken|What the laboratory does|Your sample's journey]
* A tube holds {3..9} ml, which is [less than a spoon|very little]; the body replaces it within [hours|a day].
* For fasting tests nothing but water is allowed for {8..12} hours.
* Press on the spot for {2..5} minutes with a straight arm, [otherwise a bruise appears|to keep a bruise away].
* The purple tube is for blood counts, the blue one for clotting and the [yellow|gold] one for most chemistry.
* Potassium usually lies between 3.{4..6} and 5.{0..2} mmol/l; sodium between {133..136} and {144..146}.
* Hemoglobin is reported in g/dl; values of {11..13} to {15..17} are usual, [with differences between the sexes|by
  age].
* A result outside the range is not always [a disease|bad news]: one healthy person in {18..22} has one by chance.
* Urine is collected midstream: let the first {20..40} ml go, then hold the beaker under.
* Results are ready after {1..3} working days; urgent ones after {40..90} minutes.

## example forms
* [How to fill in our form|Example of a completed form|Notes on the registration sheet]
* Use black ink and capital letters; one box for each [letter|digit].
* Box 1, surname: print it as in the passport. Box 2, given names: all of them, in order.
* Box 3, birthday: two digits for the day, two for the month, four for the year, such as
  0{1..9}.1{0..2}.{1931..1999}.
* Box 4, country code and telephone: for example 00{30..49} {100..999} {1000..9999}.
* Box 5, street and house: leave one box empty between them. Box 6, postal code: {10000..98999}.
* Box 7, person to inform: write [none|a dash] if there is nobody.
* Box 8, known allergies: tick yes or no; if yes, name the substance and the year.
* Box 9, tobacco: never / former / current, with cigarettes a day: {1..40}.
* Sign on the dotted line and hand the sheet in at counter {1..9}; a copy is [yours|returned by post].
* Ticket number: {100..999}. Waiting in front of you: {2..19}. Expected wait: {10..70} minutes.

## heart failure
* [When the heart is weak|Daily checks for a tired heart|Heart failure explained]
* The heart pumps about {4..7} litres a minute at rest; in heart failure it [manages|moves] less than the body asks
  for.
* Weigh yourself every morning after the toilet and before breakfast, [on the same scales|without shoes].
* Two kilograms more within {2..3} days means that water is being kept: [call the heart nurse|use your action plan].
* Limit fluids to {1500..2000} ml when you were told to; a thermos jug makes it easy to count.
* Ejection fraction is given in percent: {52..65} is usual, under {38..41} is reduced.
* Swollen ankles, [breathlessness on the stairs|a cough when lying flat] and lost appetite are signs to report.
* Several kinds of tablets work together here, and doses go up [step by step|slowly] over {4..16} weeks.
* Exercise is allowed: walking for {10..40} minutes, {3..6} days a week, [at a pace that lets you speak|not after
  meals].

## back pain
* [Back pain: keep moving|A sore back and what helps|Move it, do not rest it]
* Nine of ten people with a stiff back feel better within {2..6} weeks, [whatever the treatment|mostly without a
  scan].
* Bed rest beyond {1..2} days makes muscles weak and [slows|delays] recovery.
* Warmth for {15..25} minutes, a short walk every {1..3} hours and light stretching [ease|calm] the pain.
* Lift with bent knees, keep the load close and turn with the feet, never with the [spine|waist].
* Numbness between the legs, loss of bladder control or a weak foot are [red flags|alarm signs]: go to an emergency
  unit.
* A scan shows worn discs in {40..80} percent of people without any pain, so pictures can [mislead|frighten] for
  nothing.
* Sit no longer than {30..50} minutes; set an alarm, stand up, [reach for the ceiling|shake the legs].

## stopping smoking
* [A life without cigarettes|Quit smoking: first two weeks|Leave the packet]
* After {20..40} minutes the pulse slows; after {8..14} hours carbon monoxide has left; after {1..2} years the risk
  to the heart is [nearly halved|much lower].
* Nicotine patches come in {7..10}, 14 and {20..22} mg; heavy smokers begin with the strongest for {4..8} weeks.
* Cravings last {3..5} minutes: [drink water|delay, breathe and distract yourself].
* Pick a date, tell [friends|two people], and throw ash trays away the evening before.
* With counselling and tablets about {20..35} in 100 stay smoke-free, compared with {3..8} who try alone.
* A slip is not the end; look at what happened and [begin again at once|plan for next time].
* The money adds up: {5..15} dollars a day are more than {1800..5200} dollars in a year.

## infection control
* [Isolation: what the sign on the door means|Gloves, gown, mask|Precautions for staff and visitors]
* Put on gown, then mask, then gloves; take them off in the order gloves, gown, mask, and [clean hands|disinfect].
* Norovirus survives on handles for {5..12} days, and fewer than {20..100} particles are [enough|sufficient] to
  infect.
* Wipe surfaces with a {500..1000} ppm chlorine solution and leave it wet for {5..10} minutes.
* Samples with resistant bacteria were found in {1..9}.{1..9} percent of {1000..9000} swabs in {2012..2029}.
* Masks are changed when [damp|moist] or after {3..8} hours.
* Linen from isolation rooms goes into the red bag, which holds {8..12} kg at most.
* Isolation ends after {2..3} negative swabs or {48..72} hours without symptoms, as the [policy|rule book] states.
* Sharps go straight into the yellow box, which is closed at the {3..4}-quarter line.

## children with fever
* [Fever in children|A hot child at night|When to worry about a temperature]
* Fever begins at {38..38}.{0..5} degrees; the number itself says [little|less than the child's looks].
* Offer drinks every {10..30} minutes and dress the child lightly; cold baths are [no good|out of date].
* Paracetamol {10..15} mg for each kg, at most {4..4} times a day; a child of {8..30} kg gets one dose from the
  chart.
* Babies under {2..3} months with fever need a doctor the same day, [without exception|even if they look well].
* Spots that do not fade under a glass, a stiff neck or {10..14} hours without a wet nappy are emergencies.
* A fit with fever lasts usually less than {2..5} minutes: place the child on the side and [look at the clock|stay
  calm].
* School is possible again after {24..48} hours without fever.

## research summaries
* [Plain-language summary|What the study found|Results for people who took part]
* The study compared {2..4} groups with {40..400} people each over {6..48} months.
* Pain fell by {10..40} points with the new exercise plan and by {2..9} points without it, on a scale of 0 to 100.
* The difference was [unlikely to be|probably not] chance, p = 0.0{10..49}, but it was [small|smaller than hoped].
* Side effects were seen in {2..30} of {100..400} people; most were [mild|short-lived].
* Limits: the groups were [not blinded|small], and {5..30} people left early.
* The team plans to look again after {2..5} years and to [share the data|publish every result].
* Odds ratio 1.{10..90}, 95 percent interval 1.{0..9} to 2.{1..9}; [higher means more events|one means no
  difference].

## pregnancy care
* [Your visits in pregnancy|Check-ups from week {6..12}|A calendar for expectant parents]
* The first scan is planned between weeks {10..11} and {13..14}, the second near week {19..22}.
* Folic acid, {400..800} micrograms a day, is recommended [before conception and|until week {10..12},] and iron only
  if needed.
* Each visit includes pressure, a urine strip and the height of the womb in [cm|centimetres].
* A baby usually moves from week {16..22}; fewer movements than usual [should be checked today|are a reason to
  ring].
* Sugar in pregnancy is tested with {50..75} g of glucose between weeks {24..25} and {26..28}.
* The bag for the birth: [two nightgowns|a soft shirt], nappies, documents and something to [eat|sip].
* About {8..30} of 100 births in this region are by caesarean; [the unit publishes its numbers|figures differ
  widely].
* After the birth a midwife calls {3..10} times at home, [free of charge|paid by the insurance].

## skin and wounds
* [Caring for a small wound|Pressure sores: prevent them|Dressing changes at home]
* Rinse the cut with clean running water for {2..5} minutes, dab it dry and cover it.
* Turn a bedridden person every {2..4} hours, with the heels [floating on a cushion|lifted].
* A dressing stays on for {2..7} days unless it is wet, smells or [comes loose|slips].
* Redness that spreads by more than {2..3} cm, pus or [shivering|red streaks] mean that a professional should look.
* Measure length and width once a week with a paper ruler, for example {1..6} x {1..5} cm.
* Protein helps tissue grow: {1..1}.{2..5} g for every kg of weight is a common goal.
* Sunscreen of factor {30..50} goes on {15..30} minutes before going out and again after [swimming|{2..3} hours].

## emergency numbers and first aid
* [In an emergency|First aid in three lines|Call, press, shock]
* Dial the emergency number, say where you are, what happened and how many people are hurt, and wait for questions.
* Press hard in the middle of the chest, {100..120} times a minute and {5..6} cm deep, [until help arrives|without
  pause].
* After {30..30} pushes give {2..2} breaths if you know how; otherwise [keep pushing|only push].
* The defibrillator hangs beside the lift on level {0..5}: open, switch on, do what the voice says.
* Stroke signs are a hanging mouth, a weak arm and [slurred|muddled] speech: note the time and [ring at once|do not
  wait].
* Cool a burn under tap water for {10..20} minutes; [ice, butter and flour are myths|do not use ice].
* Choking: {5..5} blows between the shoulder blades, then {5..5} thrusts above the navel.
* Poison line: 800-555-01{10..99}, day and night. Have the package at hand.
"""

HELDOUT = """
## hearing aids
* [Your new hearing aid|Getting used to hearing aids|Small devices, big help]
* Wear the aid for {1..3} hours on day one and add an hour [daily|each day] until the evening news is
  [pleasant|clear].
* Batteries of size {10..13} or {312..675} last {5..14} days; peel the sticker and let air in for {60..120} seconds.
* Ear wax blocks the tube: brush it out [each night|at bedtime] over a tissue, with the opening facing down.
* Whistling points to a loose fit, so push the mould in or have it [remade|recast] after {3..5} years.
* Noise in restaurants remains the hardest test; [choose a corner table|sit with your back to the wall].
* The audiologist draws a curve from {125..250} to {6000..8000} Hz and sets the gain in dB.

## dental visits
* [Teeth and gums|Before the dentist|A clean mouth in hospital]
* Brush for {2..3} minutes with a pea of paste that holds {1000..1500} ppm fluoride, and spit without rinsing.
* Floss or small brushes reach the {30..40} percent of enamel that bristles [miss|leave untouched].
* Dentures soak overnight in a labelled beaker; boiling water [warps|bends] them.
* Bleeding gums improve after {7..14} days of gentle brushing [in nearly everyone|if you keep at it].
* Numbness from the injection wears off in {2..4} hours; eat afterwards, [or you bite your cheek|not sooner].
* Scaling is paid once in {6..12} months; extra visits cost {30..90} dollars.

## travel advice
* [Flying after surgery|Travel kit and long journeys|Away from home with a chronic illness]
* On flights beyond {4..6} hours, stretch the calves every {45..90} minutes and pick [an aisle seat|the aisle].
* Carry a fortnight of tablets in hand luggage plus a doctor's letter in {2..3} languages.
* Malaria tablets begin {1..14} days ahead of departure and continue for {7..28} days after return.
* Peel it, boil it, cook it or [forget it|leave it on the plate]; ice cubes count as water.
* Time zones: shift insulin by {1..2} hours nightly, [with help from the diabetes team|as the chart shows].
* Insurance telephone: 800-555-02{10..99}. Policy form {10..99}-{100..999}, page {1..4}.

## hospital volunteers
* [Become a volunteer|Helpers wanted|An hour a week for others]
* Volunteers read aloud, push the library trolley and [play chess|water the courtyard plants] on {2..6} wards.
* We ask for {2..4} hours weekly over {6..12} months, and train newcomers on {2..3} Saturdays.
* Travel is refunded up to {5..12} dollars; lunch vouchers are worth {6..9} dollars.
* Confidentiality is part of the badge: [what you hear stays inside|stories remain on the ward].
* Apply by {1..28} March or {1..28} October at the blue kiosk, and bring a photograph of {35..45} mm.
* Last year {40..190} helpers gave {2000..9800} hours, [a record|more than ever].

## waste and recycling
* [Sorting rubbish in clinics|Where does it go?|Bins, colours, lids]
* Black bags take household waste, orange ones infectious dressings, and purple lids [cytotoxic|cancer drug]
  remains.
* A hospital bed creates {2..6} kg of rubbish daily, of which {15..25} percent is hazardous.
* Glass ampoules never enter soft sacks, [they cut porters|even wrapped].
* Incineration needs {850..1100} degrees, whereas steam treatment manages at {121..138}.
* Recycling theatre wrap spared {3..18} tonnes in {2018..2029} and {4000..9900} dollars.
* Spill drill: warn, cordon, absorb, [bag|collect], and fill in sheet {3..9}.
"""
